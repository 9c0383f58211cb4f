"""What the other machine is asked, in the language of ``sh``. Pure.

``sh`` and ``cat`` are enough to find a run; who is at work on it, and whether a history that nobody
writes can be read, also needs ``ls``, ``find``, ``head`` and ``date``. Each question is answered by
a child, so that one that hangs at a disk leaves the shell its ears: at the end of its input it ends
the child, and whatever that waits for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

_FUNCTIONS = """\
um_say() { printf '\\n%s\\n' "$M $1"; }
um_boot() {
    if [ -r /proc/sys/kernel/random/boot_id ]; then cat /proc/sys/kernel/random/boot_id
    else sysctl -n kern.bootsessionuuid 2>/dev/null || echo "host-$(uname -n)"; fi
}
um_node() { um_say boot; um_boot; um_say host; uname -n; }
um_file() {
    if [ -e "$2" ] && ! [ -f "$2" ]; then um_say "odd $1"
    elif [ -r "$2" ]; then um_say "$1"; cat "$2"
    elif [ -e "$2" ]; then um_say denied; fi
}
um_lease() {
    [ -f "$2" ] && [ -r "$2" ] || return 0
    n=$1 f=$2 s=unknown p=
    if [ -r /proc/locks ]; then
        s=free; set -- $(ls -di -- "$f")
        case " $(cat /proc/locks) " in *":$1 "*) s=held ;; esac
    fi
    um_say "$n $s"
    IFS= read -r p <"$f"
    p=${p#*pid}; p=${p#"${p%%[0-9]*}"}; p=${p%%[!0-9]*}
    case $p in ''|0*) return 0 ;; esac
    if kill -0 "$p" 2>/dev/null; then um_say "running $n"; cat "/proc/$p/stat" 2>/dev/null; fi
    return 0
}
um_history() {
    [ $# -le 8 ] || return 0
    for f; do
        if [ -f "$f" ] && [ -s "$f" ]; then
            um_say history; printf '%s\\n' "${f##*/}"; head -c 4096 -- "$f"
        fi
    done
}
um_run() {
    um_say begin; um_node
    if [ -d "$1" ]; then
        um_say directory
        if [ -d "$1/bus" ]; then um_say bus; fi
        if [ -d "$1/bus" ] && ! [ -x "$1/bus" ]; then um_say denied; fi
        um_file connection "$1/bus/bus.json"
        um_file summary "$1/run_summary.json"
        um_file settings "$1/bus/settings.json"
        s=; um_lease aggregator "$1/bus/aggregator.lease"
        case $s in ''|free) um_history "$1"/bus/history-* ;; esac
    elif [ -e "$1" ]; then um_say file
    fi
    um_say end
}
um_zombie() {
    [ -r "/proc/$1/stat" ] && read -r z <"/proc/$1/stat" || return 1
    case ${z##*) } in Z*) return 0 ;; esac
    return 1
}
um_alive() {
    um_say begin
    if kill -0 "$1" 2>/dev/null && [ -S "$2" ] && ! um_zombie "$1"; then um_say alive
    else um_say dead; fi
    um_say end
}
um_live() {
    um_say begin; um_node
    case "${XDG_STATE_HOME-}" in /*) s=$XDG_STATE_HOME ;; *) s=$HOME/.local/state ;; esac
    for f in "$s"/unilab-metrics/runs/*.json; do um_file live "$f"; done
    um_say end
}
um_spool() {
    um_say spool
    if [ -f "$1/lease" ]; then um_lease lease "$1/lease"
    elif [ -z "$(find "$1" -prune -mmin +1 2>/dev/null)" ]; then um_say 'lease held'; fi
    for f in "$1"/spool-*; do
        if [ -f "$f" ]; then um_say identity; head -c 8192 -- "$f"; break; fi
    done
}
um_work() {
    um_say begin; um_node
    um_say pids; ls -l /proc/self/ns/pid 2>/dev/null
    um_say clock; date +%s; cat /proc/uptime 2>/dev/null
    um_file connection "$1/bus/bus.json"
    um_file summary "$1/run_summary.json"
    um_lease aggregator "$1/bus/aggregator.lease"
    for f in "$1"/bus/wal-* "$1"/bus/history-*; do
        if [ -e "$f" ]; then um_say journal; break; fi
    done
    shift
    for d; do for w in "$d"/*/; do
        w=${w%/}
        if [ -d "$w" ] && ! [ -L "$w" ]; then um_spool "$w"; fi
    done; done
    um_say work; um_say end
}
um_ask() { "$@" </dev/null & K=$!; }
um_bye() {
    [ -n "$K" ] && kill -0 "$K" 2>/dev/null && [ -r "/proc/$$/stat" ] || return 0
    read -r s <"/proc/$$/stat"; set -- ${s##*) }
    if [ "$3" = $$ ] || [ "$3" = "$PPID" ]; then kill -9 0; fi
}
K=; trap um_bye 0
"""
HISTORY_BYTES = 4096
"""Of each segment of a history that nobody writes, its beginning."""
_TILDE = re.compile(r"~[A-Za-z0-9._-]*(?=/|\Z)")


def preamble(mark: str) -> bytes:
    """To be said once; see ``Listener.is_in``. ``mark``: a word that no file holds, before
    every line of ours."""
    return f"unset -v CDPATH; M={mark}\n{_FUNCTIONS}um_say in\n".encode()


def ask_run(path: str) -> bytes:
    """A report on the run at ``path``."""
    return _asked("um_run", quoted(path))


def ask_live() -> bytes:
    """A report on the user's live runs."""
    return _asked("um_live")


def ask_alive(pid: int, path: str) -> bytes:
    """Whether there is such a process, and such a socket."""
    return _asked("um_alive", str(pid), quoted(path))


def ask_work(path: str, places: Iterable[str]) -> bytes:
    """A report on who is at work on the run at ``path``. ``places``: directories in which its
    processes there may have spools."""
    return _asked("um_work", quoted(path), *map(quoted, places))


def quoted(path: str) -> str:
    """A word of ``sh`` that is this path; ``~`` and ``~user`` are homes of the other machine."""
    tilde = _TILDE.match(path)
    if tilde is not None:
        rest = path[tilde.end() + 1 :]
        # An assignment's and a word's tilde ends at an unquoted slash only.
        return f"{tilde[0]}/{shlex.quote(rest)}" if rest else tilde[0]
    return shlex.quote(path if path.startswith("/") else f"./{path}")


def _asked(*words: str) -> bytes:
    return f"um_ask {' '.join(words)}\n".encode(errors="surrogateescape")
