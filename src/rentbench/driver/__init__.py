"""The operator's side: images, hosts, containers, collected results."""
