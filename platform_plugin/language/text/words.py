"""Lists of words of the grammar that several readers share, such as reserved words and table functions."""

from __future__ import annotations

_RESERVED = """
    ADD ALL ALTER AND ANTI ANY AS AT BETWEEN BOTH BY CASE CAST CHECK COLLATE COLUMN COMMENT CONSTRAINT CREATE CROSS CURRENT_DATE
    CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATE DEFAULT DELETE DESCRIBE DISTINCT DROP ELSE END ESCAPE EXCEPT EXISTS EXPLAIN
    EXTENDED FALSE FETCH FILTER FOR FOREIGN FORMATTED FROM FULL GENERATED GRANT GROUP HAVING HISTORY IF IN INNER INSERT INTERSECT
    INTERVAL INTO IS JOIN LATERAL LEADING LEFT LIKE LIMIT MINUS NATURAL NOT NULL OF OFFSET ON ONLY OR ORDER OUTER OVERLAPS PRIMARY
    REFERENCES RENAME REPLACE RIGHT SAMPLE SELECT SEMI SESSION_USER SET SIZE SOME STRATIFIED STREAM TABLE TABLESAMPLE THEN TIME
    TIMESTAMP TO TRAILING TRUE TYPE UNION UNIQUE UNKNOWN UPDATE USER USING VALUES VERSION VIEW WEIGHTED WHEN WHERE WINDOW
    WITH
"""
_AFTER_RELATION = """
    ANTI AS AT CLUSTER CROSS DISTRIBUTE EXCEPT FOR FULL GROUP HAVING INNER INTERSECT JOIN LATERAL LEFT LIMIT MINUS NATURAL OFFSET ON
    ORDER PIVOT QUALIFY RIGHT SELECT SEMI SORT SYSTEM_TIME SYSTEM_VERSION TABLESAMPLE TIMESTAMP UNION UNPIVOT USING VALUES VERSION WHERE
    WINDOW WITH
"""
_BEFORE_OPERAND = """
    ALL AND ANY BETWEEN BY CASE DATE DEFAULT DISTINCT DIV ELSE ESCAPE EXISTS FILTER FIRST FOR FROM HAVING ILIKE IN INTERVAL LIKE LIMIT
    NOT OF OFFSET ON OR QUALIFY RANGE REGEXP RETURN RLIKE ROWS SELECT SET SIZE SOME THEN TIMESTAMP TO USING VALUES WHEN WHERE
"""
_TABLE_FUNCTIONS = """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range sql_keywords stack unnest
    variant_explode variant_explode_outer
"""
_FILE_FORMATS = """
    avro binaryfile csv delta hudi iceberg image jdbc json kafka libsvm orc parquet rate socket state-metadata statestore text xml
"""

RESERVED = frozenset(_RESERVED.split())
"""Words that have a meaning where a name may stand, to the platform or to Spark; as names they are quoted."""
AFTER_RELATION = frozenset(_AFTER_RELATION.split())
"""Words that end a relation in FROM, so that they are not its name or alias."""
BEFORE_OPERAND = frozenset(_BEFORE_OPERAND.split())
"""Words after which a value begins, so that a colon there begins a parameter."""
TABLE_FUNCTIONS = frozenset(_TABLE_FUNCTIONS.split())
"""The table functions of Spark 4 that compute from their arguments alone."""
FILE_FORMATS = frozenset(_FILE_FORMATS.split())
"""Words that Spark takes for a data source where a schema is expected."""
NOT_COLUMNS = frozenset(("ALL", "DISTINCT", "NOT", "NULL", "TRUE", "FALSE"))
"""Words that Spark never takes for a column where they stand alone in SELECT."""
NOT_RELATIONS = frozenset(("TRUE", "FALSE"))
"""Words that Spark never takes for a relation's name before a column's."""
