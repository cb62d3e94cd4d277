#!/bin/bash
# One of the runs that are too long for `make test`: bench, soak or lab. Each is the script tests/NAME/run.sh, which
# writes its dated table under docs/.
#
# Usage:  long-run.sh NAME
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
script=tests/${1:?usage: long-run.sh NAME}/run.sh
if [ ! -x "$script" ]; then
    echo "$1: this version has none ($script is not there)" >&2
    exit 1
fi
packaging/scripts/need.sh build node peers
tests/peers/install.sh
exec "$script"
