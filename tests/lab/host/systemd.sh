#!/bin/bash
# Under systemd, with the package installed: the unit tells when it is ready, its watchdog ends an agent that hangs, exit codes
# restart it or do not, guests get their devices from inside its sandbox, and the package goes without taking them along.
. /share/checks.sh
unit=berth-agent.service
state() { systemctl show --property "$1" --value "$unit"; }
is() { [ "$(state "$1")" = "$2" ]; }
restarts_more_than() { [ "$(state NRestarts)" -gt "$1" ]; }
answers() { says versions placement GET /; }
has_provider() { says "\"$1" placement GET /resource_providers; }

# This host's image leaves out what people read, the package's must be there.
install_package() { dpkg --path-include='/usr/share/doc/*' --path-include='/usr/share/man/*' -i /share/berth.deb; }
# has FILE...: each is there, with something in it.
has() {
    local file
    for file; do
        [ -s "$file" ] && continue
        echo "$file is not there, or empty"
        return 1
    done
}
# Each that the installed program knows.
has_manual() {
    local page
    berth man --dir /tmp/manual || return
    has /tmp/manual/berth.1 /tmp/manual/berth-guest-create.1 || return
    for page in /tmp/manual/*; do
        has "/usr/share/man/man1/${page##*/}.gz" || return
    done
}

check "the package is installed" install_package
check "with a manual page of each command" has_manual
check "and completions, unit, accounts, configuration and the agent's API" has \
    /usr/share/bash-completion/completions/berth /usr/share/zsh/vendor-completions/_berth \
    /usr/share/fish/vendor_completions.d/berth.fish "/lib/systemd/system/$unit" /usr/lib/sysusers.d/berth.conf \
    /usr/lib/tmpfiles.d/berth.conf /etc/berth/berth.toml /etc/default/berth /usr/share/doc/berth/berth.toml.sample /usr/share/doc/berth/api/agent.json
check "a fresh install starts nothing" is ActiveState inactive
check "the group is there" getent group berth
check "and the controller has a user" getent passwd berth-controller
systemd-run --quiet --unit lab-placement /usr/bin/berth placement serve --database sqlite:/run/placement.sqlite --listen 127.0.0.1:8778
check "the built-in Placement answers" within 60 answers

cp /share/eight-gpu-flat.toml /etc/berth/machine.toml
cat >/etc/berth/berth.d/lab.toml <<'TOML'
compute_driver = "fake"
[fake]
machine = "/etc/berth/machine.toml"
[placement]
auth_type = "admin_token"
endpoint_override = "http://127.0.0.1:8778"
token = "admin"
TOML
check "the configuration is good" berth config check
check "the unit starts" timeout 120 systemctl start "$unit"
check "it is ready only when the report is in Placement" has_provider gpu-01
check "its status says what it does" says . state StatusText
check "its admin socket answers" berth agent status

before=$(state NRestarts)
mkdir -p /run/systemd/system/$unit.d
printf '[Service]\nWatchdogSec=5s\n' >/run/systemd/system/$unit.d/watchdog.conf
systemctl daemon-reload
systemctl restart "$unit"
kill -STOP "$(state MainPID)"
check "an agent that hangs is ended by its watchdog and started again" within 90 restarts_more_than "$before"
check "and is well again" within 90 is ActiveState active
rm -r "/run/systemd/system/$unit.d"
systemctl daemon-reload
systemctl restart "$unit"

# A start that was told to do exactly what was reviewed, when something else is due by now.
check "what is due is written down" berth reshape plan --out /etc/berth/plan.json
mkdir -p /run/systemd/system/$unit.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/berth agent --expect-plan /etc/berth/plan.json\n' >/run/systemd/system/$unit.d/plan.conf
systemctl daemon-reload
before=$(state NRestarts)
sed -i 's/vgpu = "root"/vgpu = "per-gpu"/' /etc/berth/machine.toml
check "exit code 75 restarts it" within 60 restarts_more_than "$before"
check "a reshape that is not the reviewed one ends it with 76" within 60 is ExecMainStatus 76
sleep 5
check "and nothing restarts it" is ActiveState failed
check "nothing half-made is left" not has_provider gpu-01_
rm -r "/run/systemd/system/$unit.d"
systemctl daemon-reload
systemctl reset-failed "$unit"
check "without that condition it starts" timeout 120 systemctl start "$unit"
check "and the start reshapes" within 60 has_provider gpu-01_
check "and it is active" within 60 is ActiveState active

systemctl stop "$unit"
echo 'compute_drivr = "fake"' >/etc/berth/berth.d/wrong.toml
systemctl start "$unit" 2>/dev/null
check "exit code 78 does not restart it" within 30 is ExecMainStatus 78
sleep 5
check "it stays down" is ActiveState failed
check "and the journal names file and key" says 'wrong\.toml.*compute_drivr' journalctl -u "$unit" --no-pager
rm /etc/berth/berth.d/wrong.toml

# The whole node as one process, in the sandbox of the agent's unit, with libvirt as Debian configures it: guests run as an
# account of their own.
systemctl reset-failed "$unit"
systemctl stop lab-placement
rm -rf /var/lib/berth /etc/berth/berth.d/lab.toml /etc/berth/machine.toml
STATE=/var/lib/berth IMAGES=/srv/images
. /share/node.sh
drivers
images
systemctl start libvirtd.service
configure
mkdir -p /run/systemd/system/$unit.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/berth up\n' >/run/systemd/system/$unit.d/up.conf
systemctl daemon-reload
check "a whole node starts in the unit's sandbox" timeout 120 systemctl start "$unit"
confined() { is ProtectSystem strict && is NoNewPrivileges yes && is DevicePolicy closed && is MemoryDenyWriteExecute yes; }
check "and that is whole" confined
check "it cleans the devices and offers them" within 60 offered
check "and made the virtual functions" test "$(cat "/sys/bus/pci/devices/$IGB/sriov_numvfs")" = 2
profile nic CUSTOM_NIC
profile vf CUSTOM_VF
profile vgpu VGPU
check "a VFIO guest spawns inside the sandbox" kernel whole nic
check "with a virtual function" guest function vf
check "which its emulator has open" has_open function
check "and with a mediated device" guest mediated vgpu
account() { stat -c %U "/proc/$(pgrep -f "guest=$1" | head -n 1)"; }
check "its emulator runs as libvirt's own account" test "$(account whole)" = libvirt-qemu
check "and has the device open" has_open whole
check "its kernel reads the card's registers" within 120 reads whole
check "a guest is deleted inside the sandbox" berth guest delete function --wait
check "and one with a mediated device" berth guest delete mediated --wait
check "none is left" test "$(mediated)" = 0
check "and their devices are cleaned" within 60 clean
check "the sandbox forbade nothing that was wanted" \
    not says '[Nn]ot permitted|[Pp]ermission denied|[Rr]ead-only file' journalctl -u "$unit" --no-pager
journalctl -u "$unit" --no-pager -o cat | grep -E ' (WARN|ERROR) ' | tail -n 20
check "the package is removed" dpkg -r berth
check "the agent ended with it" says '^(inactive|failed)$' state ActiveState
check "the guest still runs" says '^running' virsh domstate whole
check "with its device" has_open whole
check "what the guests hold is remembered" test -d /var/lib/berth
check "the package is installed again" install_package
check "and starts where it ended" timeout 120 systemctl start "$unit"
known() { says '^whole active' berth guest list -f value -c name -c status; }
check "it knows the guest" within 60 known
check "and can end it" berth guest delete whole --wait
nothing_is_left
end
