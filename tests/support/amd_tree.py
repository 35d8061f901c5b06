"""A made-up node with AMD GPUs: the files that amdgpu and amdkfd show, below a folder of its own."""

from pathlib import Path

MI300X = 206141652992  # bytes of VRAM
OWN = 297 << 20  # what an idle one uses itself


class AmdTree:
    """`labels` point a fleet node's readers at it."""

    def __init__(self, root: Path, cards: int = 2, driver: bool = True) -> None:
        self.root = root
        for index in range(cards):
            at = self.folder(index)
            at.mkdir(parents=True)
            for name, text in {"vendor": "0x1002", "class": "0x120000", "device": "0x74a1"}.items():
                (at / name).write_text(text + "\n")
            if driver:
                self._card(index, at)
        if driver:
            (root / "dev").mkdir()
            (root / "dev/kfd").touch()
            (root / "sys/class/kfd/kfd/proc").mkdir(parents=True)

    @property
    def labels(self) -> dict[str, str]:
        """Of the fleet node."""
        return {"fake-root": str(self.root)}

    def folder(self, index: int) -> Path:
        """The card's PCI device."""
        return self.root / f"sys/bus/pci/devices/0000:{self.bus(index):02x}:00.0"

    def bus(self, index: int) -> int:
        """Its bus number."""
        return 0x05 + 0x21 * index

    def _card(self, index: int, at: Path) -> None:
        (at / "unique_id").write_text(f"5a3c1e90000000{index:02x}\n")
        (at / "mem_info_vram_total").write_text(f"{MI300X}\n")
        (at / "hwmon/hwmon3").mkdir(parents=True)
        self.show(index)
        node = self.root / f"sys/class/kfd/kfd/topology/nodes/{index + 2}"
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"{51110 + index}\n")
        (node / "properties").write_text(f"simd_count 1216\nlocation_id {self.bus(index) << 8}\ndomain 0\n")

    def show(self, index: int, used: int = OWN, busy: int = 0, watts: float = 173) -> None:
        """What the card says from now on."""
        at = self.folder(index)
        (at / "mem_info_vram_used").write_text(f"{used}\n")
        (at / "gpu_busy_percent").write_text(f"{busy}\n")
        (at / "mem_busy_percent").write_text("0\n")
        (at / "hwmon/hwmon3/power1_average").write_text(f"{int(watts * 1e6)}\n")

    def hold(self, pid: int, index: int, used: int) -> None:
        """A compute process with memory on the card."""
        at = self.root / f"sys/class/kfd/kfd/proc/{pid}"
        at.mkdir(parents=True, exist_ok=True)
        (at / f"vram_{51110 + index}").write_text(f"{used}\n")
        self.show(index, used=OWN + used)
