# Sourced by bin/up and bin/test: makes .venv hold exactly what a lock file names, checked by hash.

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

right_version() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if right_version "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    found=$(python3 --version 2>/dev/null) || found="no python3"
    fail "Takeover needs Python 3.11 or newer and found $found: install one (Debian: apt install python3 python3-venv), or name it in PYTHON."
}

# A lock is installed once: the stamp holds the checksums of everything that is in .venv.
set_up() {
    lock=$1
    venv=$root/.venv
    stamp=$venv/installed
    sum=$(cksum <"$lock")
    if [ -x "$venv/bin/python" ] && grep -qxF "$sum" "$stamp" 2>/dev/null; then
        return
    fi
    [ -w "$root" ] || fail "$root cannot be written to, and .venv belongs there: clone to a folder of your own."
    python=$(find_python)
    echo "Setting up .venv (once; about a minute)" >&2
    if command -v uv >/dev/null 2>&1; then
        right_version "$venv/bin/python" || uv venv --quiet --clear --python "$python" "$venv"
        uv pip install --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes -r "$lock" ||
            fail "The packages of $lock could not be installed (see above): check the network and the disk, then start again."
    else
        if ! right_version "$venv/bin/python" || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
            "$python" -c 'import ensurepip, venv' 2>/dev/null ||
                fail "This Python has no venv module: install it (Debian: apt install python3-venv), then start again."
            "$python" -m venv --clear "$venv" >/dev/null || fail "$venv could not be made (see above): check the disk, then start again."
        fi
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r "$lock" ||
            fail "The packages of $lock could not be installed (see above): check the network and the disk, then start again."
    fi
    # The development lock contains the runtime one, so what it installed serves both.
    case $lock in
    tests/*) { cksum <"$root/requirements.lock"; echo "$sum"; } >"$stamp.new" ;;
    *) echo "$sum" >"$stamp.new" ;;
    esac
    mv "$stamp.new" "$stamp"
}
