#!/bin/sh
# shellcheck shell=sh
# Part of start.sh for the operator's networks: trusts the certificates in /etc/berth/ca.pem, and lets
# apt use the mirror in /etc/berth/apt-mirror. Runs at each start, also to undo an earlier one.

network=/dev/shm/berth-network

# The bundle of certificates of Debian and Alpine, Red Hat, SUSE, another Alpine, conda.
find_bundle() {
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem \
    /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem /opt/conda/ssl/cacert.pem; do
    [ ! -s "$bundle" ] || return 0
  done
  bundle=/etc/ssl/certs/ca-certificates.crt
}
# The bundle is changed in place: variables of the instance lead to it, and what its owner adds counts,
# too. The anchors are for the image's own program that rewrites the bundle. The record names what
# a later start takes out again, also in a saved image.
record=/var/lib/berth/ca.pem
trust_certificates() {
  find_bundle
  if [ -s "$record" ] && [ -s "$bundle" ]; then
    awk '
      /-----BEGIN CERTIFICATE-----/ { inside = 1; block = "" }
      inside { block = block $0 "\n" }
      !inside && FILENAME != ARGV[1] { print }
      /-----END CERTIFICATE-----/ {
        if (FILENAME == ARGV[1]) old[block] = 1
        else if (!(block in old)) printf "%s", block
        inside = 0
      }' "$record" "$bundle" >"$network/bundle" && cat "$network/bundle" >"$bundle"
    rm -f "$network/bundle"
  fi
  rm -f "$record"
  for anchors in /usr/local/share/ca-certificates /etc/pki/ca-trust/source/anchors /etc/pki/trust/anchors; do
    rm -f "$anchors/berth.crt"
    [ ! -e /etc/berth/ca.pem ] || [ ! -d "$anchors" ] || cp /etc/berth/ca.pem "$anchors/berth.crt"
  done
  [ -e /etc/berth/ca.pem ] || return 0
  mkdir -p "${bundle%/*}"
  cat /etc/berth/ca.pem >>"$bundle" && cp /etc/berth/ca.pem "$record"
  ln -sf "$bundle" "$network/ca.pem"
}

# apt reads the image's file of sources from here, with the mirror in it (APT_CONFIG). The files of
# the image stay, so a saved image works elsewhere, and other files of sources count.
use_apt_mirror() {
  [ -e /etc/berth/apt-mirror ] && [ -d /etc/apt ] || return 0
  mirror=$(sed 's/[&#\\]/\\&/g' /etc/berth/apt-mirror)
  for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources /etc/apt/sources.list; do
    [ -s "$sources" ] && break
  done
  copy=$network/${sources##*/}
  hosts='\(deb\|security\|ftp[a-z.]*\|archive\|ports\|[a-z]*\.archive\)\.\(debian\.org\|ubuntu\.com\)'
  sed "s#https\{0,1\}://$hosts#$mirror#g" "$sources" >"$copy"
  {
    echo "Dir::Etc::sourcelist \"$copy\";"
    [ "${sources%.sources}" = "$sources" ] || echo "Dir::Ignore-Files-Silently:: \"^${sources##*/}\$\";"
  } >"$network/apt.conf"
}
rm -rf "$network"
mkdir -p "$network"
trust_certificates
use_apt_mirror
