# Terraform's OpenStack provider creates, shows, changes and deletes a server of the tenant.
terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

provider "openstack" {
  cloud = "tenant"
}

variable "made_by" {
  type    = string
  default = "terraform"
}

resource "openstack_networking_port_v2" "port" {
  name           = "terraform"
  network_id     = data.openstack_networking_network_v2.private.id
  admin_state_up = true
}

data "openstack_networking_network_v2" "private" {
  name = "private"
}

# By its id, because providers before 1.53 look for names at the compute API.
data "openstack_images_image_v2" "guest" {
  name = "berth-guest"
}

resource "openstack_compute_instance_v2" "server" {
  name        = "terraform"
  image_id    = data.openstack_images_image_v2.guest.id
  flavor_name = "tiny"
  key_pair    = "key"

  network {
    name = "private"
  }

  metadata = {
    made_by = var.made_by
  }
}

resource "openstack_compute_interface_attach_v2" "second" {
  instance_id = openstack_compute_instance_v2.server.id
  port_id     = openstack_networking_port_v2.port.id
}

output "id" {
  value = openstack_compute_instance_v2.server.id
}

output "address" {
  value = openstack_compute_instance_v2.server.access_ip_v4
}
