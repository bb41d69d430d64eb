# Shared by the setup scripts of the peers; see README.md for what they are given.
# shellcheck shell=bash

here=$(cd "$(dirname "$0")" && pwd)
read -r package version <"$here/version"
: "${PGHOST:?}" "${PGUSER:?}" "${PGDATABASE:?}" "${AGENTQ_PEERS_DIR:?a folder to install packages in}"
# Where this peer's package is kept for the next time.
home=$(realpath -m "$AGENTQ_PEERS_DIR/$package")

fail() {
    echo "$package: $*" >&2
    exit 1
}

# Runs a command and shows what it printed only when it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || fail "$* failed:"$'\n'"$output"
}

# need COMMAND PACKAGE: makes sure of a command, from a Debian package when this may be installed.
need() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "$1 is missing; install it (Debian: $2)"
    fi
    quietly env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$2"
}

# install_once FUNCTION [ARGUMENT...]: calls it with an empty $home, unless that holds this version
# already. The mark is written last, so that an interrupted installation is begun again.
install_once() {
    [ "$(cat "$home/installed" 2>/dev/null)" = "$package $version" ] && return
    rm -rf "$home"
    mkdir -p "$home"
    "$@"
    echo "$package $version" >"$home/installed"
}

npm_package() {
    need node nodejs
    need npm npm
    quietly npm install --no-audit --no-fund --prefix "$home" "$package@$version"
}

# python_package [MORE...]: the package, and what else it needs to talk to the server.
python_package() {
    need python3 python3
    python3 -c 'import ensurepip' 2>/dev/null || need python3-venv python3-venv
    quietly python3 -m venv "$home/venv"
    quietly "$home/venv/bin/pip" install --disable-pip-version-check "$package==$version" "$@"
}

# SQL from the standard input.
sql() {
    local psql=psql
    [ -z "${AGENTQ_PG_BIN:-}" ] || psql=$AGENTQ_PG_BIN/psql
    command -v "$psql" >/dev/null || fail "psql is missing; put it on the PATH or set AGENTQ_PG_BIN"
    "$psql" --no-psqlrc --quiet --set ON_ERROR_STOP=1 --output /dev/null "$@"
}
