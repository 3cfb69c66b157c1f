//! A page of Markdown as HTML.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::{Group, address, sources};

/// A heading: its level, the name that links have for it, its text.
pub(super) type Heading = (u8, String, String);

pub(super) struct Page {
    file: PathBuf,
    text: String,
    pub(super) title: String,
    pub(super) headings: Vec<Heading>,
}

impl Page {
    pub(super) fn new(file: &Path, text: &str) -> Self {
        let headings = headings(text);
        let title = headings.first().map_or_else(|| file.display().to_string(), |(_, _, title)| title.clone());
        Self { file: file.to_owned(), text: text.to_owned(), title, headings }
    }

    /// Its HTML, with links as the site has them. Files of the tree that it links to are added to `wanted`.
    pub(super) fn html(&self, files: &BTreeSet<PathBuf>, wanted: &mut BTreeSet<PathBuf>) -> Result<String, String> {
        let mut problems = Vec::new();
        let mut names = self.headings.iter().map(|(_, name, _)| name.clone());
        let here = address(&self.file);
        let mut target = |link: &str| match self.target(link, files) {
            Ok(Target::Elsewhere) => link.to_owned(),
            Ok(Target::Here(file, fragment)) => {
                let is_page = file.extension().is_some_and(|ending| ending == "md");
                let place = if is_page { address(&file) } else { sources::place(&file, files) };
                if !is_page {
                    wanted.insert(file);
                }
                relative(&here, &place) + &fragment
            }
            Err(problem) => {
                problems.push(problem);
                link.to_owned()
            }
        };
        let events: Vec<Event<'_>> = Parser::new_ext(&self.text, options())
            .map(|event| match event {
                Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                    let id = names.next().map(CowStr::from);
                    Event::Start(Tag::Heading { level, id, classes, attrs })
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    Event::Start(Tag::Link { link_type, dest_url: target(&dest_url).into(), title, id })
                }
                Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                    Event::Start(Tag::Image { link_type, dest_url: target(&dest_url).into(), title, id })
                }
                // Nothing but Markdown makes a page.
                Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
                other => other,
            })
            .collect();
        let mut out = String::new();
        html::push_html(&mut out, events.into_iter());
        if problems.is_empty() {
            // A wide table is moved under the finger, and not the page.
            Ok(out.replace("<table>", "<div class=\"wide\"><table>").replace("</table>", "</table></div>"))
        } else {
            Err(problems.join("\n"))
        }
    }

    fn target(&self, link: &str, files: &BTreeSet<PathBuf>) -> Result<Target, String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return Ok(Target::Elsewhere);
        }
        let (path, fragment) = match link.split_once('#') {
            Some((path, fragment)) => (path, format!("#{fragment}")),
            None => (link, String::new()),
        };
        if path.is_empty() {
            return Ok(Target::Here(self.file.clone(), fragment));
        }
        let file = normal(&self.file.parent().unwrap_or(Path::new("")).join(path));
        let is_there = files.contains(&file) || files.iter().any(|known| known.starts_with(&file));
        let is_there = is_there && file.components().next().is_some();
        if is_there {
            Ok(Target::Here(file, fragment))
        } else {
            Err(format!("{}: {link} leads nowhere", self.file.display()))
        }
    }
}

enum Target {
    Elsewhere,
    /// A file or a folder of the tree, and what follows `#`, with it.
    Here(PathBuf, String),
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES
}

fn headings(text: &str) -> Vec<Heading> {
    let mut all: Vec<Heading> = Vec::new();
    let mut open: Option<(u8, String)> = None;
    for event in Parser::new_ext(text, options()) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => open = Some((depth(level), String::new())),
            Event::End(TagEnd::Heading(_)) => {
                if let Some((level, title)) = open.take() {
                    let name = slug(&title);
                    // As GitHub does with headings of one name.
                    let count = all.iter().filter(|(_, _, known)| slug(known) == name).count();
                    all.push((level, if count == 0 { name } else { format!("{name}-{count}") }, title));
                }
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, title)) = &mut open {
                    title.push_str(&words);
                }
            }
            _ => {}
        }
    }
    all
}

const fn depth(level: HeadingLevel) -> u8 {
    level as u8
}

/// The name that GitHub gives a heading, so that a link holds here and there.
fn slug(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// How one place of the site names another.
pub(super) fn relative(from: &Path, to: &Path) -> String {
    let mut from: Vec<_> = from.parent().into_iter().flat_map(Path::components).collect();
    let mut to: Vec<_> = to.components().collect();
    while !from.is_empty() && to.len() > 1 && from[0] == to[0] {
        from.remove(0);
        to.remove(0);
    }
    let to: PathBuf = to.into_iter().collect();
    "../".repeat(from.len()) + &to.to_string_lossy()
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The whole page around what it says.
pub(super) fn whole(
    place: &Path,
    title: &str,
    body: &str,
    headings: &[Heading],
    navigation: &[Group],
    references: &[(&str, String)],
) -> String {
    let mut menu = String::new();
    for (number, (group, pages)) in navigation.iter().enumerate() {
        let holds = pages.iter().any(|(file, _)| address(file) == place);
        let open = if holds || number + 1 < navigation.len() { " open" } else { "" };
        let _ = write!(menu, "<details{open}><summary>{}</summary><ul>", escaped(group));
        for (file, title) in pages {
            let to = address(file);
            let current = if to == place { " aria-current=\"page\"" } else { "" };
            let _ = write!(menu, "<li><a href=\"{}\"{current}>{}</a></li>", relative(place, &to), escaped(title));
        }
        menu.push_str("</ul></details>\n");
    }
    if !references.is_empty() {
        menu.push_str("<details open><summary>Reference</summary><ul>");
        for (title, begins) in references {
            let to = relative(place, Path::new(begins));
            let _ = write!(menu, "<li><a href=\"{to}\">{}</a></li>", escaped(title));
        }
        menu.push_str("</ul></details>\n");
    }
    let contents: Vec<&Heading> = headings.iter().filter(|(level, ..)| *level == 2).collect();
    let mut aside = String::new();
    if contents.len() > 2 {
        aside.push_str("<nav class=\"contents\" aria-label=\"On this page\"><p>On this page</p><ul>");
        for (_, name, title) in contents {
            let _ = write!(aside, "<li><a href=\"#{name}\">{}</a></li>", escaped(title));
        }
        aside.push_str("</ul></nav>");
    }
    let title = if title == "Oncebox" { "Oncebox".to_owned() } else { format!("{} – Oncebox", escaped(title)) };
    let (style, home) = (relative(place, Path::new("style.css")), relative(place, Path::new("index.html")));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'self'; img-src 'self'\">\n<title>\
         {title}</title>\n<link rel=\"stylesheet\" href=\"{style}\">\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To \
         the text</a>\n<header><a href=\"{home}\">Oncebox</a><a class=\"to-pages\" href=\"#pages\">Pages</a></header>\n<div class=\"columns\">\n<details class=\"menu\" \
         id=\"pages\" open><summary>Pages</summary><nav aria-label=\"Pages\">\n{menu}</nav></details>\n<main id=\"main\">\n{body}</main>\n\
         {aside}\n</div>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> BTreeSet<PathBuf> {
        ["README.md", "docs/a.md", "docs/b.md", "src/lib.rs", "docs/p.svg"].map(PathBuf::from).into()
    }

    #[test]
    fn links_lead_to_where_the_site_has_it() {
        let page = Page::new(
            Path::new("docs/a.md"),
            "# A\n\n[b](b.md#x) [r](../README.md) [s](../src/lib.rs) [f](../src) \
                             [e](https://e.org/) ![p](p.svg) [own](#a)\n\n<script>x</script>\n",
        );
        let mut wanted = BTreeSet::new();
        let html = page.html(&files(), &mut wanted).unwrap();
        for link in [
            "\"b.html#x\"",
            "\"../index.html\"",
            "\"../source/src/lib.rs.html\"",
            "\"../source/src/index.html\"",
            "\"https://e.org/\"",
            "\"p.svg\"",
            "\"a.html#a\"",
        ] {
            assert!(html.contains(link), "{link}: {html}");
        }
        assert!(html.contains("<h1 id=\"a\">") && !html.contains("<script>"), "{html}");
        assert_eq!(wanted, ["src/lib.rs", "src", "docs/p.svg"].map(PathBuf::from).into());
        let nowhere = Page::new(Path::new("docs/a.md"), "[x](../gone.md)").html(&files(), &mut wanted).unwrap_err();
        assert_eq!(nowhere, "docs/a.md: ../gone.md leads nowhere");
    }

    #[test]
    fn headings_are_named_as_on_github() {
        let names: Vec<String> =
            headings("# Two words\n## `code`: what?\n## Two words\n## 1. A create is answered 504, and was done\n")
                .into_iter()
                .map(|(_, name, _)| name)
                .collect();
        assert_eq!(names, ["two-words", "code-what", "two-words-1", "1-a-create-is-answered-504-and-was-done"]);
    }
}
