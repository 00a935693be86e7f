"""What mkdocs.yml names as its hook: the generator of the site in `rentbench.report.hooks`."""

from rentbench.report.hooks import SiteHooks

_hooks = SiteHooks()
on_config = _hooks.on_config
on_files = _hooks.on_files
on_post_page = _hooks.on_post_page
on_post_build = _hooks.on_post_build
