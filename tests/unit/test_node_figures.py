"""What a node says of itself: processors, memory within its container, GPUs of the run."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import pytest
from fake_nvml import FakeNvml

from unilab_metrics.node.container import MemoryLimit, memory_limit
from unilab_metrics.node.control_groups import Group
from unilab_metrics.node.cpu_quota import CpuQuota, cpu_quota
from unilab_metrics.node.gpus import GpuReader, NoGpuError
from unilab_metrics.node.processors import ProcessorReader
from unilab_metrics.node.visible_gpus import visible_gpus
from unilab_schema.canonical.node import NodeTag, node_tag, read_node_tag
from unilab_schema.metrics import MetricTable

GIB = 1 << 30


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        (None, None),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("2", ("2",)),
        ("0, 3,1", ("0", "3", "1")),
        ("0,-1,1", ("0",)),
        ("1,1", ("1",)),
        ("01", ("1",)),
        ("GPU-ab,MIG-cd", ("GPU-ab", "MIG-cd")),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(
    variable: str | None, named: tuple[str, ...] | None
) -> None:
    assert visible_gpus(variable) == named


def places(visible: str | None, nvml: FakeNvml | None = None) -> list[str]:
    values = GpuReader(visible, lambda: nvml or FakeNvml())()
    return list(dict.fromkeys(tag.split("/")[2] for tag in values))


def test_a_gpu_tells_its_work_its_memory_its_temperature_and_its_power() -> None:
    assert GpuReader("0", FakeNvml)() == {
        "Node/0/gpu0/util_percent": 87.0,
        "Node/0/gpu0/memory_used_bytes": 21.0 * GIB,
        "Node/0/gpu0/memory_total_bytes": 80.0 * GIB,
        "Node/0/gpu0/temperature_c": 64.0,
        "Node/0/gpu0/power_w": 231.0,
    }


def test_only_gpus_of_the_run_are_read_under_the_numbers_of_the_driver() -> None:
    assert places(None) == ["gpu0", "gpu1"]
    assert places("1") == ["gpu1"]
    assert places("GPU-bbbb-1") == ["gpu1"]
    assert places("GPU-b") == ["gpu1"]
    assert places("1,0") == ["gpu1", "gpu0"]
    assert places("0,9,1") == ["gpu0"]


@pytest.mark.parametrize(
    ("visible", "order", "expected"),
    [
        ("1", None, ["gpu0", "gpu1"]),
        ("1", "FASTEST_FIRST", ["gpu0", "gpu1"]),
        ("1", "PCI_BUS_ID", ["gpu1"]),
        ("GPU-b", None, ["gpu1"]),
        ("GPU-b,0", None, ["gpu0", "gpu1"]),
    ],
)
def test_numbers_that_may_mean_other_gpus_to_cuda_name_none(
    visible: str, order: str | None, expected: list[str]
) -> None:
    nvml = FakeNvml()
    nvml.models[1] = "NVIDIA L4"
    values = GpuReader(visible, lambda: nvml, order)()
    assert list(dict.fromkeys(tag.split("/")[2] for tag in values)) == expected
    # Without models there is nothing to doubt.
    nvml.missing = {"name"}
    assert places("1", nvml) == ["gpu1"]


def test_a_slice_of_a_gpu_has_its_own_memory_and_the_sensors_of_the_whole() -> None:
    values = GpuReader(FakeNvml.SLICE, FakeNvml)()
    assert values == {
        "Node/0/gpu1:7/memory_used_bytes": 5.0 * GIB,
        "Node/0/gpu1:7/memory_total_bytes": 10.0 * GIB,
        "Node/0/gpu1:7/temperature_c": 64.0,
        "Node/0/gpu1:7/power_w": 231.0,
    }


def test_a_figure_that_a_gpu_does_not_have_is_left_out() -> None:
    nvml = FakeNvml(1)
    nvml.missing = {"power", "temperature"}
    figures = [tag.split("/")[3] for tag in GpuReader(None, lambda: nvml)()]
    assert figures == ["util_percent", "memory_used_bytes", "memory_total_bytes"]


def test_without_a_driver_a_library_or_a_gpu_there_is_nothing_to_read() -> None:
    broken, none = FakeNvml(), FakeNvml(0)
    broken.missing = {"init"}

    def no_library() -> FakeNvml:
        raise ImportError("pynvml")

    for visible, load in (
        (None, lambda: broken),
        (None, lambda: none),
        (None, no_library),
        ("5", FakeNvml),
        ("", FakeNvml),
    ):
        with pytest.raises(NoGpuError):
            GpuReader(visible, load)
    assert none.opened == none.closed == 1


def test_processors_and_memory_of_this_machine_are_read() -> None:
    reader = ProcessorReader(lambda _processors: None)
    values = reader()
    assert set(values) == {
        "Node/0/cpu_percent",
        "Node/0/memory_used_bytes",
        "Node/0/memory_total_bytes",
    }
    assert 0.0 <= values["Node/0/cpu_percent"] <= 100.0
    assert 0 < values["Node/0/memory_used_bytes"] <= values["Node/0/memory_total_bytes"]


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def limit(tmp_path: Path, membership: str) -> MemoryLimit | None:
    file = tmp_path / "membership"
    file.write_text(membership)
    return memory_limit(64 * GIB, membership=file, mounted=tmp_path / "mounted")


def test_the_tightest_limit_above_a_process_counts_and_not_the_machines_memory(
    tmp_path: Path,
) -> None:
    root = tmp_path / "mounted"
    current = f"{10 * GIB}\n"
    stat = f"anon 1\ninactive_file {2 * GIB}\n"
    group(root / "a" / "b", memory__max="max\n", memory__current="5\n")
    group(root / "a", memory__max=f"{24 * GIB}\n", memory__current=current, memory__stat=stat)
    assert limit(tmp_path, "0::/a/b\n") == MemoryLimit(8 * GIB, 24 * GIB)
    group(root / "a" / "b", memory__max=f"{4 * GIB}\n", memory__current=f"{GIB}\n")
    assert limit(tmp_path, "0::/a/b\n") == MemoryLimit(GIB, 4 * GIB)


def test_a_container_that_sees_only_its_own_root_has_its_limit_there(tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    group(root, memory__max=f"{GIB}\n", memory__current="7\n")
    assert limit(tmp_path, "0::/docker/abc\n") == MemoryLimit(7, GIB)
    group(root / "memory", memory__limit_in_bytes=f"{2 * GIB}\n", memory__usage_in_bytes="9\n",
          memory__stat="total_inactive_file 4\n")  # fmt: skip
    assert limit(tmp_path, "4:cpu,cpuacct:/x\n9:memory:/docker/abc\n") == MemoryLimit(5, 2 * GIB)


def quota(tmp_path: Path, membership: str, processors: int = 64) -> CpuQuota | None:
    file = tmp_path / "membership"
    file.write_text(membership)
    return cpu_quota(processors, membership=file, mounted=tmp_path / "mounted")


def test_the_tightest_quota_above_a_process_counts_with_what_its_group_has_used(
    tmp_path: Path,
) -> None:
    root = tmp_path / "mounted"
    group(root / "a" / "b", cpu__max="max 100000\n", cpu__stat="usage_usec 5\n")
    assert quota(tmp_path, "0::/a/b\n") is None
    group(root / "a", cpu__max="250000 100000\n", cpu__stat="nr_periods 1\nusage_usec 7\n")
    above = CpuQuota(Group(2, PurePosixPath("a")), 2.5, 7000)
    assert quota(tmp_path, "0::/a/b\n") == above
    group(root, cpu__max="400000 100000\n", cpu__stat="usage_usec 9\n")
    assert quota(tmp_path, "0::/a/b\n") == above
    assert quota(tmp_path, "0::/a/b\n", processors=2) is None


def test_a_quota_of_the_first_version_is_read_as_well(tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    group(root / "cpu" / "x", cpu__cfs_quota_us="400000\n", cpu__cfs_period_us="100000\n")
    group(root / "cpuacct" / "x", cpuacct__usage="12\n")
    membership = "4:cpuacct,cpu:/x\n9:memory:/y\n"
    assert quota(tmp_path, membership) == CpuQuota(Group(1, PurePosixPath("x")), 4.0, 12)
    group(root / "cpu" / "x", cpu__cfs_quota_us="-1\n")
    assert quota(tmp_path, membership) is None


@pytest.mark.parametrize("text", ["", "x y\n", "100000 0\n", "100000\n", "0 100000\n", "9 x\n"])
def test_what_is_no_quota_is_none(text: str, tmp_path: Path) -> None:
    group(tmp_path / "mounted", cpu__max=text, cpu__stat="usage_usec 5\n")
    assert quota(tmp_path, "0::/\n") is None
    group(tmp_path / "mounted", cpu__max="100000 100000\n", cpu__stat="")
    assert quota(tmp_path, "0::/\n") is None


def test_cpu_is_said_of_the_quota_where_there_is_one() -> None:
    used_s, now_s = [0.0, 4.0, 8.0, 8.5, 9.0], [0.0, 2.0, 3.0, 4.0, 5.0]
    folders = ["a", "a", "a", "b", "b"]
    readings = iter(
        [CpuQuota(Group(2, PurePosixPath(folder)), 4.0, round(used * 1e9))
         for folder, used in zip(folders, used_s, strict=True)]
    )  # fmt: skip
    times = iter([round(now * 1e9) for now in now_s])
    reader = ProcessorReader(lambda _processors: next(readings), lambda: next(times))
    percents = [reader().get("Node/0/cpu_percent") for _ in range(4)]
    # 4 s of processor time in 2 s are half of four processors; another group begins anew.
    assert percents == [50.0, 100.0, None, 12.5]


def test_the_quota_comes_with_the_share_of_it() -> None:
    readings = iter([CpuQuota(Group(2, PurePosixPath()), 2.5, used) for used in (0, 10**9)])
    times = iter([0, 10**9])
    values = ProcessorReader(lambda _processors: next(readings), lambda: next(times))()
    assert (values["Node/0/cpu_percent"], values["Node/0/cpu_quota_processors"]) == (40.0, 2.5)


@pytest.mark.parametrize("text", ["max\n", f"{1 << 62}\n", "0\n", "", "x\n", f"{64 * GIB}\n"])
def test_what_is_no_limit_below_the_machines_memory_is_none(text: str, tmp_path: Path) -> None:
    group(tmp_path / "mounted", memory__max=text, memory__current="7\n")
    assert limit(tmp_path, "0::/\n") is None
    assert limit(tmp_path, "") is None
    assert memory_limit(1, membership=tmp_path / "nowhere") is None


def test_tags_of_a_node_say_their_unit_and_belong_to_nobody_else() -> None:
    table = MetricTable()
    for figure, unit in (("cpu_percent", "%"), ("memory_used_bytes", "bytes")):
        spec = table.spec(node_tag(figure))
        assert spec is not None
        assert (spec.unit, spec.persisted) == (unit, False)
    spec = table.spec(node_tag("power_w", gpu="0:1"))
    assert spec is not None
    assert spec.unit == "W"
    assert "bus itself" in (table.check("Node/0/gpu0/util_percent", strict=False) or "")
    assert read_node_tag("Node/0/gpu0:1/power_w") == NodeTag(0, "0:1", "power_w")
    assert read_node_tag("Node/0/cpu_percent") == NodeTag(0, "", "cpu_percent")
    assert [read_node_tag(tag) for tag in ("Node/x/y", "Node/0", "a/0/b", "Node")] == [None] * 4


def test_the_library_is_not_loaded_before_somebody_samples() -> None:
    import subprocess

    code = "import sys, unilab_metrics.node.this_node; print({'pynvml', 'psutil'} & {*sys.modules})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"
