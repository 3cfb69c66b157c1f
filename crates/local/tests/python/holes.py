"""What does not work on the local server, by package and method, and why."""

IMAGE = (
    "the local server has no images: it fetches none, and builds on this machine's programs"
    " (`from_base_image`, `from_template`)"
)
NETWORK = (
    "the tests' server reaches no network (`--network egress` would),"
    " so a build installs nothing from a registry"
)
GATEWAY = "there is no template `mcp-gateway`: its servers are images"
EDGE = (
    "placeholders are filled in by rules of egress for each host, which are kept and told, not carried out:"
    " that takes a proxy that opens TLS"
)
CONTAINER = "needs the `devcontainer` program of the template `devcontainer`, which is an image"

_images = "alpine_image arch_image bun_image debian_image fedora_image node_image python_image ubuntu_image".split()
_both = {
    "Sandbox.get_mcp_url": GATEWAY,
    "Sandbox.get_mcp_token": GATEWAY,
    **{f"Template.from_{image}": IMAGE for image in [*_images, "aws_registry", "gcp_registry"]},
    "Secret.fill": EDGE,
    "Secret.iam_token": EDGE,
}
_builder = {
    "TemplateBuilder.add_mcp_server": GATEWAY,
    "TemplateBuilder.apt_install": f"{NETWORK}; /usr is the machine's and cannot be written",
    "TemplateBuilder.bun_install": NETWORK,
    "TemplateBuilder.npm_install": NETWORK,
    "TemplateBuilder.pip_install": NETWORK,
    "TemplateBuilder.beta_dev_container_prebuild": CONTAINER,
    "TemplateBuilder.beta_set_dev_container_start": CONTAINER,
}


def holes(package, asynchronous):
    """The holes of one half of a package."""
    if package != "e2b":
        return {}
    return _both if asynchronous else _both | _builder
