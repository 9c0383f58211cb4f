"""Everything can be imported where what Linux alone has is missing, as on macOS."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import fcntl, importlib, mmap, os, pkgutil, select, signal, socket, sys, time, types

LINUX = {
    fcntl: ("F_ADD_SEALS", "F_GETPIPE_SZ", "F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW",
            "F_SETPIPE_SZ"),
    mmap: ("MADV_DONTFORK", "MADV_HUGEPAGE", "MADV_POPULATE_WRITE", "MADV_REMOVE", "MAP_LOCKED",
           "MAP_NORESERVE", "MAP_POPULATE"),
    os: ("MFD_ALLOW_SEALING", "MFD_CLOEXEC", "O_DIRECT", "O_PATH", "O_TMPFILE", "SCHED_BATCH",
         "SCHED_IDLE", "copy_file_range", "eventfd", "fdatasync", "getrandom", "memfd_create",
         "pidfd_open", "pipe2", "posix_fadvise", "posix_fallocate", "sched_getaffinity",
         "sched_setaffinity", "setns", "setresuid", "splice", "unshare"),
    select: ("epoll",),
    signal: ("SIGPWR", "SIGRTMAX", "SIGRTMIN", "SIGSTKFLT", "pidfd_send_signal", "sigtimedwait",
             "sigwaitinfo"),
    socket: ("MSG_NOSIGNAL", "SCM_CREDENTIALS", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PASSCRED",
             "SO_PEERCRED"),
    time: ("CLOCK_BOOTTIME",),
}
for module, names in LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"
# Of the standard library there.
proxies = types.ModuleType("_scproxy")
proxies._get_proxy_settings = proxies._get_proxies = dict
sys.modules["_scproxy"] = proxies
count = 0
for root in ("unilab_schema", "unilab_metrics", "unilab_sidecar"):
    package = importlib.import_module(root)
    for found in pkgutil.walk_packages(package.__path__, root + "."):
        if not found.name.endswith("__main__") and ".demo" not in found.name:
            importlib.import_module(found.name)
            count += 1
print(count)
"""


def test_all_modules_but_the_demo_load_without_what_linux_alone_has() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400
