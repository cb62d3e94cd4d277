"""The schema of OpenStack Placement's database, by its own migrations, and any database's schema as SQLAlchemy sees it.

Usage: placement_schema.py

Reads a JSON object from each line of the standard input and writes one for each to the standard output. All name the
database by `url`, as SQLAlchemy writes it.

    {"url": ..., "upgrade": REVISION}   alembic's upgrade, with Placement's own migrations; `head` is the newest
    {"url": ..., "standard_rows": true} the traits and resource classes that the service writes when it starts; for one
                                        database in each process
    {"url": ..., "upgrade_check": true} what `placement-status upgrade check` looks at in a database: the names of checks
                                        that do not succeed; for one database in each process
    {"url": ..., "reflect": true}       tables, columns, keys and indexes
"""

import json
import os
import sys

import sqlalchemy
from oslo_config import cfg
from placement import conf, context, db_api
from placement.cmd import status
from placement.db.sqlalchemy import migration
from placement.objects import resource_class, trait


def upgrade(engine, revision):
    # Placement's environment for alembic asks here for the engine of the process.
    db_api.get_placement_engine = lambda: engine
    migration.upgrade(revision)
    return migration.version(engine=engine)


def configure(url):
    # oslo.config takes options from the environment, too.
    os.environ["OS_PLACEMENT_DATABASE__CONNECTION"] = url
    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config([], project="placement", default_config_files=[])
    db_api.configure(config)
    return config


def standard_rows(url):
    configure(url)
    scope = db_api.DbContext()
    trait.ensure_sync(scope)
    resource_class.ensure_sync(scope)


def upgrade_check(url):
    checks = status.Checks(configure(url))
    # The third is about a file of policy.
    done = {name: check(checks) for name, check in checks._upgrade_checks[:2]}
    return [f"{name}: {result.details}" for name, result in done.items() if result.code]


def reflect(engine):
    inspector = sqlalchemy.inspect(engine)
    tables = {}
    for table in inspector.get_table_names():
        columns = {}
        for column in inspector.get_columns(table):
            columns[column["name"]] = {
                "type": column["type"].compile(dialect=engine.dialect),
                "nullable": column["nullable"],
                "default": column["default"],
                "autoincrement": column.get("autoincrement"),
            }
        tables[table] = {
            # Their order is part of it: INSERT without names, dumps.
            "order": list(columns),
            "columns": columns,
            "primary_key": inspector.get_pk_constraint(table)["constrained_columns"],
            "unique": {
                unique["name"]: unique["column_names"] for unique in inspector.get_unique_constraints(table)
            },
            "indexes": {
                index["name"]: [index["column_names"], bool(index["unique"])]
                for index in inspector.get_indexes(table)
            },
            "foreign_keys": {
                ",".join(key["constrained_columns"]): [
                    key["name"],
                    key["referred_table"],
                    key["referred_columns"],
                    {name: value for name, value in key["options"].items() if value},
                ]
                for key in inspector.get_foreign_keys(table)
            },
        }
    return tables


def answer(asked):
    url = asked.pop("url")
    if "standard_rows" in asked:
        return standard_rows(url)
    if "upgrade_check" in asked:
        return upgrade_check(url)
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    if "upgrade" in asked:
        return upgrade(engine, asked["upgrade"])
    return reflect(engine)


def main():
    # Alembic talks on the output that the answers are written to.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            said = {"answer": answer(json.loads(line))}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
