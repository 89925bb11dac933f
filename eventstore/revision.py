"""Which tables a database has, and how it says that they are ours."""

# The newest migration, so that a normal open needs one SELECT and no Alembic.
HEAD = "0004"
# "wfct" in ASCII: how a SQLite file says whose it is.
APPLICATION_ID = 0x77666374
# How a PostgreSQL database says it: the comment on the table of events.
MARK = "wfctl event log"
