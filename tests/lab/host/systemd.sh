#!/bin/bash
# Under systemd, with the package installed: the unit tells when it is ready, its watchdog ends an agent that hangs, exit codes
# restart it or do not, and the package goes without taking guests along.
. /share/checks.sh
unit=berth-agent.service
state() { systemctl show --property "$1" --value "$unit"; }
is() { [ "$(state "$1")" = "$2" ]; }
restarts_more_than() { [ "$(state NRestarts)" -gt "$1" ]; }
answers() { placement GET / | grep -q versions; }
has_provider() { placement GET /resource_providers | grep -q "\"$1"; }

check "the package is installed" dpkg -i /share/berth.deb
check "a fresh install starts nothing" is ActiveState inactive
check "the group is there" getent group berth
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
check "its status says what it does" sh -c "systemctl show --property StatusText --value $unit | grep -q ."
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
check "exit code 75 restarts it" within 120 restarts_more_than "$before"
check "a reshape that is not the reviewed one ends it with 76" within 120 is ExecMainStatus 76
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
check "and the journal names file and key" sh -c "journalctl -u $unit --no-pager | grep wrong.toml | grep -q compute_drivr"
rm /etc/berth/berth.d/wrong.toml

systemctl reset-failed "$unit"
cat >/tmp/guest.xml <<'XML'
<domain type='qemu'><name>stays</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os>
<features><acpi/></features><devices><emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model='none'/></devices></domain>
XML
check "a guest runs" sh -c "virsh define /tmp/guest.xml && virsh start stays"
systemctl start "$unit"
check "the package is removed" dpkg -r berth
check "the agent ended with it" not systemctl is-active "$unit"
check "the guest still runs" sh -c "virsh domstate stays | grep -q running"
check "what the guests hold is remembered" test -d /var/lib/berth
end
