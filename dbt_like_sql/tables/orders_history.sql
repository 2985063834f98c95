-- Orders that have left the stream: their files move here in the commit that lets them leave.
CREATE TABLE orders_history AS HISTORY OF orders;
