# shellcheck shell=bash
# What every script shares: where things live, who runs the server, how a step reports itself.
#
#   $root     the project            $home    everything private to it (AGENTQ_HOME)
#   $major    the major version of PostgreSQL that is meant: PG, or that of PG_CONFIG, or 15
#   $place    everything private to that major version: $home/$major
#   $run_as   the user the server runs as: `postgres` for root, since PostgreSQL refuses to run as
#             root; empty, meaning the caller, for everybody else
# Sourced, never run. It changes to $root and turns on strict mode.

set -Eeuo pipefail
umask 022
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

# For servers started from here: with these set, errors raised in Rust would carry backtraces.
unset RUST_BACKTRACE RUST_LIB_BACKTRACE

# --- how things are said ---------------------------------------------------------------------

say() { printf '==> %s\n' "$*"; }

die() { # die <what is wrong> <what to do next>
    printf '\n%s: %s\nNext: %s\n' "${0##*/}" "$1" "$2" >&2
    exit 70
}

unexpected() {
    local code=$?
    if ((code == 70)); then exit 70; fi # a die in a subshell: it has said everything
    printf '\n%s: "%s" failed with exit code %s, line %s.\nNext: bash -x %s shows the way there; logs are in %s.\n' \
        "${0##*/}" "$BASH_COMMAND" "$code" "${BASH_LINENO[0]}" "$0" "${home:-$root}/log" >&2
}
trap unexpected ERR

# step <what it does> <what to do when it fails> <command...>
# One line with the time it took; on failure the end of its log and the next thing to do.
step() {
    local what=$1 next=$2 log code started=$SECONDS
    shift 2
    log=$home/log/$(printf %s "$what" | tr -cs 'A-Za-z0-9.\n' -).log
    printf '==> %s ... ' "$what"
    # Not `if ( ... )`: that would switch errexit off inside the command.
    trap - ERR
    set +e
    (
        set -e
        "$@"
    ) >"$log" 2>&1 </dev/null
    code=$?
    set -e
    trap unexpected ERR
    if ((code == 0)); then
        printf 'done (%ss)\n' "$((SECONDS - started))"
        return
    fi
    printf 'FAILED (%ss)\n' "$((SECONDS - started))"
    tail -n 25 "$log" | sed 's/^/    /' >&2
    die "$what failed; the whole log is $log" "$next"
}

# --- who runs the server, and where -------------------------------------------------------------

if ((EUID == 0)); then run_as=${AGENTQ_RUN_AS-postgres}; else run_as=; fi

# Runs a command as the server's user, from a folder that this user can read.
as_server() (
    cd /
    if [[ $run_as ]]; then exec runuser -u "$run_as" -- "$@"; else exec "$@"; fi
)

others_can_enter() {
    local dir=$1
    until [[ $dir == / ]]; do
        [[ $(stat -c %A "$dir") == *[xt] ]] || return 1
        dir=$(dirname "$dir")
    done
}

home_reason= # why $home is not in the project, when it is not
if [[ ${AGENTQ_HOME:-} ]]; then
    home=$AGENTQ_HOME
else
    home=$root/.private
    if [[ $run_as ]] && ! others_can_enter "$root"; then
        home_reason="the user $run_as cannot enter $root"
    elif ((${#home} > 57)); then
        home_reason="the path of the project is too long for a Unix socket"
    elif [[ $home == *[!A-Za-z0-9/._+-]* ]]; then
        home_reason="the path of the project has characters that PostgreSQL's tools would trip over"
    fi
    if [[ $home_reason ]]; then
        home=/var/tmp/agentq-$(printf %s "$root" | sha256sum | cut -c1-10)
    fi
fi
mkdir -p "$home/log"
home=$(cd "$home" && pwd -P)
# Root reads what whoever owns the project has built there.
[[ -O $home || $EUID$home == "0$root"/* ]] ||
    die "$home belongs to somebody else" "set AGENTQ_HOME to a folder of yours"

# --- which PostgreSQL -----------------------------------------------------------------------------

majors=(15 16 17 18)

# The release of Debian that a major version is in; for 16, which is in none, one that it runs in.
# shellcheck disable=SC2034 # for scripts/fetch-server and scripts/package-test
declare -A suites=([15]=bookworm [16]=bookworm [17]=trixie [18]=forky)

# The mirror of Debian that the machine's own apt has.
debian_mirror() {
    local mirror
    # shellcheck disable=SC2016 # for apt
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Created-By: Packages' | sort -u | head -n 1)
    [[ $mirror && -e $debian_keys ]] || { echo "the machine's apt has no mirror of Debian" >&2 && return 1; }
    printf %s "$mirror"
}
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg

major_of() { "$1" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'; } # major_of <pg_config>

if [[ ${PG_CONFIG:-} ]]; then
    command -v "$PG_CONFIG" >/dev/null || die "there is no $PG_CONFIG" "name one with PG_CONFIG=/path/to/pg_config"
    major=$(major_of "$PG_CONFIG")
    [[ ${PG:-$major} == "$major" ]] || die "PG is $PG, but $PG_CONFIG is of PostgreSQL $major" "set one of the two"
else
    major=${PG:-15}
fi
[[ " ${majors[*]} " == *" $major "* ]] || die "agentq is not made for PostgreSQL $major" "choose one of ${majors[*]} with PG=n"
place=$home/$major
mkdir -p "$place"

# Makes $place/<name>, writable by the server's user and closed to everybody else.
server_dir() {
    install -d -m 700 ${run_as:+-o "$run_as"} "$place/$1"
}

# --- the tools -----------------------------------------------------------------------------------

# The private tools first; then, for shells that lack them, cargo's folder and the sbin folders.
PATH=$home/tools/bin:$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:/usr/local/sbin:/usr/sbin:/sbin
export PATH PGRX_HOME=$home/pgrx

# The pg_config of the machine's own PostgreSQL of the major version that is meant: that which PG_CONFIG names, if it does.
find_pg_config() {
    local candidate
    if [[ ${PG_CONFIG:-} ]]; then
        command -v "$PG_CONFIG"
        return
    fi
    for candidate in "/usr/lib/postgresql/$major/bin/pg_config" "/usr/pgsql-$major/bin/pg_config" "$(command -v pg_config || :)"; do
        if [[ -x $candidate && $(major_of "$candidate") == "$major" ]]; then
            printf %s "$candidate"
            return
        fi
    done
    return 1
}

# The PostgreSQL that the caller chose with PG_CONFIG or PG, for install, installcheck and package.
chosen_pg_config() {
    find_pg_config || die "the machine has no PostgreSQL $major" "name one with PG_CONFIG=/path/to/pg_config"
}

# The bin folder of the private PostgreSQL that scripts/prefix made.
pg_bin() { readlink -e "$place/bin" || die "there is no private PostgreSQL $major in $home yet" "run make run PG=$major, or scripts/prefix"; }

# So that the caller's own connection settings cannot steer what runs on a private server.
forget_libpq_env() {
    unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSWORD PGPASSFILE PGSERVICE PGSERVICEFILE \
        PGOPTIONS PGSSLMODE PGDATA PGTZ PGCLIENTENCODING
}

# Puts the way from the version before beside the schema just built: its frozen schema, so that it can be installed, and
# the upgrade scripts, each with what it includes. The version just built wins over a frozen schema of the same name.
install_upgrades() { # install_upgrades <extension folder> [command prefix, such as sudo]
    local dir=$1 file version
    shift
    version=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" "$dir/agentq.control")
    for file in sql/install/*.sql sql/upgrade/*.sql; do
        [[ -e $file && ${file##*/} != "agentq--$version.sql" ]] || continue
        scripts/assemble "$file" >"$home/assembled.sql"
        "$@" install -m 644 "$home/assembled.sql" "$dir/${file##*/}"
    done
    rm -f "$home/assembled.sql"
}

# --- what is built --------------------------------------------------------------------------------

agentq_version() { sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1; }

# Whether a source of the extension is newer than a file.
sources_changed_since() {
    local path sources=()
    for path in src crates/core sql agentq.control Cargo.toml Cargo.lock build.rs .cargo rust-toolchain.toml; do
        if [[ -e $path ]]; then sources+=("$path"); fi
    done
    [[ $(find "${sources[@]}" -newer "$1" -print -quit) ]]
}

# Copies agentq out of the PostgreSQL that scripts/build installed it into. Each file is named, because tests leave upgrade
# scripts of theirs beside them.
copy_agentq() { # copy_agentq <its pg_config> <library folder> <extension folder> [command prefix, such as sudo]
    local from lib=$2 ext=$3 name names=(agentq.control "agentq--$(agentq_version).sql")
    from=$("$1" --sharedir)/extension
    for name in sql/install/*.sql sql/upgrade/*.sql; do names+=("${name##*/}"); done
    "${@:4}" install -m 644 "$("$1" --pkglibdir)/agentq.so" "$lib/agentq.so"
    "${@:4}" install -m 644 "${names[@]/#/$from/}" "$ext/"
}
