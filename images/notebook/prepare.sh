#!/bin/sh
# Runs after the base system and before the recipe's packages are installed; $1 is the image's root.
set -eu
root=$1

# The base system was unpacked before dpkg knew what the recipe leaves out.
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/man/* "$root"/usr/share/info/*
find "$root/usr/share/locale" -mindepth 1 -maxdepth 1 ! -name locale.alias -exec rm -r {} +
