"""No secret of a URL is in any text, whatever the URL, the secret and the text around it are."""

import pickle
import traceback
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin import Platform
from platform_plugin.engine.spark.server.attach import connect
from platform_plugin.errors import PlatformError, StorageError
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.redaction import redact_text

SIGNS = st.text("ab019/+=@:#?&;%~!$*(),.-_|^{}[]", max_size=8)
SECRETS = st.lists(SIGNS, min_size=2, max_size=4).map("QXZ".join)
AROUND = st.sampled_from(
    ["{}", "no file matches '{}'", 'can\'t open "{}": denied', "Path does not exist: {}; it ended", "('{}', 403)", "<{}>", "a=1 {} b@c x:y"]
)


@given(SECRETS, st.sampled_from(["s3", "s3a", "gs", "https", "ftp", "platform", "postgresql+psycopg", "hdfs"]), st.booleans(), AROUND)
def test_passwords_of_urls(secret, scheme, is_quoted, around):
    written = quote(secret, safe="") if is_quoted else secret
    text = redact_text(around.format(f"{scheme}://someone:{written}@host/data/x.csv"))
    assert "QXZ" not in text
    assert redact_text(text) == text


@given(st.text("QXZqxz0189", min_size=6), st.sampled_from(["s3", "gs", "https"]), AROUND)
def test_keys_that_stand_alone(secret, scheme, around):
    assert secret not in redact_text(around.format(f"{scheme}://{secret}@host/data/x.csv"))


@given(
    st.dictionaries(
        st.sampled_from(["token", "x-custom", "sig", "X-Amz-Signature", "password", "headers", "k"]),
        st.text("QXZqxz0189/+=@:%~!$*.-_", min_size=6).map(lambda text: "QXZ" + text),
        min_size=1,
    ),
    st.sampled_from(["&", ";"]),
    AROUND,
)
def test_parameters_and_headers(given, separator, around):
    pairs = separator.join(f"{name}={value}" for name, value in given.items())
    urls = [f"sc://host:15002/;{pairs}", f"https://host/x.csv?{pairs}"]
    nested = "platform://ann@host/db?data=/d&spark="
    for url in (*urls, nested + urls[0].replace("&", "%26"), nested + quote(urls[0], safe="")):
        assert "QXZ" not in redact_text(around.format(url))


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/dt=2026-11-19T00:00/a@b.csv",
        "abfss://box@account.dfs.core.windows.net/x",
        "platform://ann@host:5432/db?data=s3://bucket/x&schema=lake",
        "platform+local:///srv/lake",
        "sc://host:15002/;use_ssl=true;user_id=ann",
        "sc://host:15002",
        "unexpected token: FOO at 3:4, x = 5",
        "write platform://user@host/database?data=s3://bucket/prefix",
        "SELECT a::INT FROM t WHERE a = 'b@c'",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE STREAM s FROM KAFKA 'ann:pw@one:9092,two:9092/t'", "CREATE STREAM s FROM KAFKA 'ann:***@one:9092,two:9092/t'"),
        ("aws_secret_access_key=abc", "aws_secret_access_key=***"),
        ("host=x password='a b' user=y", "host=x password=*** user=y"),
        ("{'secret_key': 'abc', 'n': 1}", "{'secret_key': '***', 'n': 1}"),
        ("Authorization: Bearer abcdefghijk", "Authorization: Bearer ***"),
        ("spark.hadoop.fs.s3a.secret.key=abc", "spark.hadoop.fs.s3a.secret.key=***"),
    ],
)
def test_what_a_name_says_is_a_secret(text, said):
    assert redact_text(text) == said


def test_errors_and_what_caused_them_keep_the_secret():
    url = "s3://AKIA:QXZ/QXZ@bucket/x"
    try:
        try:
            raise OSError(5, "broken", url)
        except OSError as inner:
            try:
                raise ValueError(f"{url} can't be read") from inner
            except ValueError as error:
                raise StorageError(f"file {url}", detail=url, hint=url) from error
    except StorageError as error:
        error.detail = f"again {url}"
        chain = [error, error.__cause__, error.__cause__.__cause__, pickle.loads(pickle.dumps(error))]
        assert not any("QXZ" in text for one in chain for text in (str(one), repr(one), repr(vars(one))))


def test_an_error_says_all_else_as_it_was():
    error = PlatformError('stream "posts" does not exist', detail="line 1", hint="run SHOW STREAMS")
    assert (error.message, error.detail, error.hint) == ('stream "posts" does not exist', "line 1", "run SHOW STREAMS")


def test_an_engine_does_not_show_what_its_url_holds(tmp_path):
    engine = sa.create_engine(f"platform+local://{tmp_path}/lake?spark=sc%3A%2F%2Fh%3A1%2F%3Btoken%3DQXZ")
    assert "QXZ" not in f"{engine!r} {engine.url} {engine.url!r}"
    assert "QXZ" in engine.url.render_as_string(hide_password=False)
    assert sa.create_engine(engine.url).url == engine.url


STATEMENTS = (
    "COPY t FROM 's3://AKIA:QXZ/QXZ@bucket/x.csv'",
    "COPY t FROM 'https://host/x.csv?sig=QXZQXZ'",
    "COPY t FROM 's3://AKIA:QXZ@bucket/x.txt'",
    "CREATE STREAM s (a INT) FROM FILES 'ftp://ann:QXZ@host/*.csv'",
    "CREATE STREAM s (a INT) FROM FILES 'gs://QXZQXZ@bucket/*.csv'",
    "CREATE STREAM s (a INT) FROM KAFKA 'ann:QXZ@host:9092/t'",
    "COPY nobody FROM 's3://AKIA:QXZ@bucket/x.csv'",
    "COPY t FORM 's3://AKIA:QXZ@bucket/x.csv'",
)


def everything(error):
    """All that may be shown of an error."""
    told = "".join(traceback.format_exception(error))
    return "\n".join(line for line in told.splitlines() if not line.lstrip().startswith(("File ", "STATEMENT"))) + repr(vars(error))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_that_name_a_place_with_a_secret(statement, tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t (a INT)")
        with pytest.raises(PlatformError) as caught:
            platform.execute(statement)
        assert "QXZ" not in everything(caught.value)
        with pytest.raises(PlatformError) as caught:
            platform.execute("COPY t FROM :place", {"place": statement.split("'")[1]})
        assert "QXZ" not in everything(caught.value)
    engine = sa.create_engine(f"platform+local://{tmp_path}/lake")
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError) as caught:
        connection.exec_driver_sql(statement)
    assert "QXZ" not in everything(caught.value)
    engine.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "platform://ann:QXZ@127.0.0.1:1/db?data=/tmp/x",
        "platform://ann:QXZ@QXZ@127.0.0.1:1/db?data=/tmp/x",
        "platform://ann:QXZ/QXZ@127.0.0.1:1/db?data=/tmp/x",
        "platform://ann@127.0.0.1:1/db?data=s3://AKIA:QXZ@bucket/x",
        "platform://ann@127.0.0.1:1/db?data=/tmp/x&password=QXZ",
        "platform://ann:QXZ@127.0.0.1:QXZ/db?data=/tmp/x",
        "platform:/ann:QXZ@host/db",
        "platfrm://ann:QXZ@host/db",
        "platform+local:///tmp/x?spark=sc://h:1/;token=QXZ&nonsense=QXZ",
    ],
)
def test_lakes_that_can_not_be_opened(url):
    with pytest.raises(PlatformError) as caught:
        Platform.open(url)
    assert "QXZ" not in everything(caught.value)


def test_a_location_shows_no_header():
    where = Location.parse("platform+local:///tmp/x?spark=sc%3A%2F%2Fh%3A1%2F%3Btoken%3DQXZ%3Bx-key%3DQXZ%3Buser_id%3Dann")
    assert "QXZ" not in f"{where} {where!r}"
    assert "QXZ" in where.spark


def test_an_endpoint_that_is_not_there_or_not_one(tmp_path):
    for endpoint in ("sc://127.0.0.1:1/;use_ssl=false;x-key=QXZ;token=QXZ", "sc://127.0.0.1:QXZ/;x-key=QXZ", "QXZ://x/;x-key=QXZ"):
        with pytest.raises(PlatformError) as caught:
            connect(endpoint)
        assert "x-key=QXZ" not in everything(caught.value)
        assert "token=QXZ" not in everything(caught.value)
