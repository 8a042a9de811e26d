"""The packages on other systems: each a minimal one that debootstrap makes, in which nothing of this machine is.

    sudo python3 tests/house/systems.py FOLDER SUITE[=MIRROR]... [--keyring FILE]

after `make wheel` and `make package`. The .tar.gz is unpacked where nothing else is installed; then the README's beginning and its Python are
typed as they stand, where Python was installed and nothing else; then the .deb is installed, and programs in C++ and C are linked
with it by pkg-config. FOLDER keeps the systems for the next time. Ubuntu's suites need the mirror, and a keyring.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class System:
    def __init__(self, folder, suite, mirror, keyring):
        self.suite, self.base, self.folder = suite, folder / suite, folder / f"{suite}-tried"
        if not (self.base / "usr").is_dir():
            words = ["debootstrap", "--variant=minbase", suite, self.base]
            if mirror:  # Ubuntu's; debootstrap of Debian 12 knows none after jammy, and they are made in the same way
                words[2:2] = ["--components=main,universe", f"--keyring={keyring}"]
                words += [mirror, "jammy"]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run(["cp", "-a", self.base, self.folder], check=True)
        (self.folder / "etc/resolv.conf").write_text(Path("/etc/resolv.conf").read_text())
        certificates = self.folder / "root/certificates.crt"  # as this machine trusts
        if os.path.exists(CERTIFICATES):
            shutil.copy(CERTIFICATES, certificates)

    def run(self, script):
        """What a shell prints in that system, whose environment is bare."""
        around = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                  "PIP_CERT": "/root/certificates.crt"}  # fmt: skip
        words = ["chroot", self.folder, "sh", "-ec", "cd\n" + script]
        ran = subprocess.run(words, env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ran.returncode != 0:
            sys.exit(f"{self.suite}: exit code {ran.returncode}\n{script}\n{ran.stdout}")
        return ran.stdout

    def install(self, *packages):
        self.run("apt-get -qq update && apt-get -qq install -y --no-install-recommends " + " ".join(packages))

    def bring(self, file, to="root"):
        (self.folder / to).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, self.folder / to)


def only(pattern):
    found = sorted(ROOT.glob(pattern))
    assert len(found) == 1, f"expected one {pattern}, found {len(found)}; run make wheel and make package"
    return found[0]


def expect(words, text):
    assert words in text, f"expected '{words}', found\n{text}"


def try_archive(system):
    """Library and command, unpacked where a user likes; no Python, no compiler."""
    archive = only("build/package/*.tar.gz")
    system.bring(archive)
    printed = system.run(f"mkdir 'a folder'; tar xf {archive.name} -C 'a folder' --strip-components=1; cd 'a folder/bin'\n"
                         "./polyhead --version; ./polyhead trace --example crews; ./polyhead train repeat --steps 3 --out /tmp/run;"
                         "./polyhead heads smollm2 2>&1 || true")  # fmt: skip
    expect("Head 0 carries the referent", printed)
    expect("'polyhead get smollm2' fetches it", printed)


def try_python(system):
    system.install("python3", "python3-venv")
    readme = (ROOT / "README.md").read_text()
    lines = re.search(r"```sh\n(.*?)```", readme, re.DOTALL)[1].splitlines(keepends=True)
    typed = "".join(lines[1:-1])  # make wheel is done, and serve would wait for a browser
    wheel = only("build/wheel/*.whl")
    system.bring(wheel, "root/build/wheel")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    for number, block in enumerate(blocks):
        (system.folder / f"root/{number}.py").write_text(block)
    printed = system.run(typed + "".join(f"python {number}.py\n" for number in range(len(blocks))) + "polyhead --version\npython -m polyhead --version\n")
    expect("normalised_entropy", printed)
    assert printed.count("polyhead 0.") == 2, printed


def try_deb(system):
    system.install("g++", "pkg-config")
    package = only("build/package/*.deb")
    system.bring(package)
    system.install(f"./{package.name}")
    for file in ("tests/house/consumer/consumer.cpp", "examples/embed.cpp", "examples/attention.c"):
        system.bring(ROOT / file)
    printed = system.run("polyhead --version; test -s /usr/share/doc/polyhead/copyright\n"
                         "g++ -std=c++20 consumer.cpp $(pkg-config --cflags --libs polyhead) -o consumer; ./consumer\n"
                         "g++ -std=c++20 embed.cpp $(pkg-config --cflags --libs polyhead) -o embed; ./embed\n"
                         "gcc attention.c $(pkg-config --cflags --libs polyhead_c) -lm -o attention; ./attention\n")  # fmt: skip
    expect("mean entropy of head 0", printed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--keyring")
    arguments = parser.parse_args()
    for pattern in ("build/wheel/*.whl", "build/package/*.tar.gz", "build/package/*.deb"):
        print(f"{only(pattern).name}: {only(pattern).stat().st_size / 1e6:.1f} MB", flush=True)
    for word in arguments.suites:
        suite, _, mirror = word.partition("=")
        system = System(arguments.folder.resolve(), suite, mirror, arguments.keyring)
        try_archive(system)
        try_python(system)
        try_deb(system)
        name = re.search(r'PRETTY_NAME="(.*)"', system.run("cat /etc/os-release"))[1]
        glibc = system.run("ldd --version").splitlines()[0].split()[-1]
        python = system.run("python3 --version").split()[1]
        print(f"{name} (glibc {glibc}, Python {python}): .tar.gz, wheel and .deb work", flush=True)


if __name__ == "__main__":
    main()
