"""Installs a wheel into an environment of its own, without a network, and tries it there. A Python that is older than what
the wheel asks for must refuse it.

    python try_install.py WHEEL FOLDER [DEMO.yaml]

DEMO.yaml is what the demo trains then: emulated, its own takes minutes.
pip is the one that comes with this Python, run from its own wheel: installing it would take minutes under qemu.
"""
import ensurepip
import glob
import os
import platform
import subprocess
import sys

wheel, folder = sys.argv[1:3]
environment = os.path.join(folder, "environment")
subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
wheels = [path for place in (os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), "/usr/share/python-wheels")
          for path in glob.glob(os.path.join(place, "*.whl"))]
done = subprocess.run([os.path.join(environment, "bin", "python"), "-m", "pip", "install", "--no-index", "--no-cache-dir", "--no-compile",
                       wheel], env=dict(os.environ, PYTHONPATH=os.pathsep.join(wheels)),
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
print(platform.machine(), "CPython", platform.python_version(), *platform.libc_ver())
print(done.stdout)
if sys.version_info < (3, 10):
    sys.exit(0 if done.returncode and "is not a supported wheel on this platform" in done.stdout else "the wheel was not refused")
if done.returncode:
    sys.exit("pip could not install the wheel")
script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "try_wheel.py")
sys.exit(subprocess.run([os.path.join(environment, "bin", "python"), script, "-v"], check=False,
                        env=dict(os.environ, TD_DEMO=sys.argv[3]) if sys.argv[3:] else None).returncode)
