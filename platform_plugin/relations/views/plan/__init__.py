"""View plans: how a query over streams is split, shared among views and stored. Pure: no engine, no storage."""
