#!/bin/sh
# Starts the image's own JupyterLab in place of one that was installed over it and does not start
# (start.sh). The page says so (berth_lab.py). Its Python 3 is the instance's, with what was
# installed there; a kernel of the image's packages alone is offered beside.
kernels=/dev/shm/berth-kernels/kernels
mkdir -p "$kernels/python3" "$kernels/image"
kernel() {
  printf '{"argv":["%s","-m","ipykernel_launcher","-f","{connection_file}"],"display_name":"%s","language":"python","metadata":{"debugger":true}}\n' \
    "$2" "$3" >"$kernels/$1/kernel.json"
}
kernel python3 /opt/venv/bin/python 'Python 3 (ipykernel)'
kernel image /opt/jupyter/bin/python 'Python 3 (packages of the image)'
export JUPYTER_PATH="${kernels%/kernels}${JUPYTER_PATH:+:$JUPYTER_PATH}" BERTH_JUPYTER_OF_IMAGE=1
exec /opt/jupyter/bin/python -m jupyterlab "$@"
