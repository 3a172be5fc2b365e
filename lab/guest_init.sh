#!/bin/sh
# shellcheck shell=dash
# The first program of a guest of `lab up --qemu`, in its initial memory disk (busybox). The host's root is mounted
# read-only over 9p with an overlay above it: every program of the host runs here, and nothing that is written
# reaches the host but what goes into the lab's own folder, /run/lab.

# give_up SENTENCE: it is the last line of the console, which the lab shows.
give_up() {
  echo "lab: $1"
  sleep 1
  poweroff -f
}

share() {
  mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$3" "$1" "$2" || give_up "9p cannot mount $1"
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do
  insmod "/modules/$module" || give_up "the module $module cannot be loaded"
done </modules/order
mkdir -p /host /upper /root
share host /host ro,cache=loose
mount -t tmpfs -o size=75% tmpfs /upper
mkdir -p /upper/files /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work overlay /root ||
  give_up "no overlay above the host's root"
for place in proc sys dev; do mount --move "/$place" "/root/$place"; done
mount -t tmpfs -o mode=0755 tmpfs /root/run
mkdir -p /root/run/lab /root/lib/modules
share lab /root/run/lab cache=none
share modules /root/lib/modules ro,cache=loose
exec chroot /root /bin/bash /run/lab/guest.sh
