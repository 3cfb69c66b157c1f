//! Recipes from Dockerfiles, and as Dockerfiles.

mod lines;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use parse_dockerfile::{Command, Flag, Instruction, Source};

use super::{Base, CopyFiles, Ready, StepKind, Template};
use crate::error::Error;
use crate::shell::quote;

/// How long a program is given to start when a Dockerfile says what to start, and not when it is ready (protocol fact).
const START_TIME: Duration = Duration::from_secs(20);

/// As whom a template's steps run where nothing was said (protocol fact).
const DEFAULT_USER: &str = "user";

/// What the names of archives end with that ADD unpacks (Dockerfile reference: "ADD").
const ARCHIVES: [&str; 8] = [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst"];

/// Reads a Dockerfile's text.
pub(super) fn read(text: &str) -> Result<Template, Error> {
    // Before it is told from a comment or a directive.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let escape = lines::escape_of(text);
    let text = &lines::join(text).map_err(|line| {
        let why = "it ends with two escape characters, which is not supported";
        Error::invalid(format!("Dockerfile: line {line}: {why}"))
    })?;
    let parsed = parse_dockerfile::parse(text).map_err(|error| Error::invalid(format!("Dockerfile: {error}")))?;
    let mut reader = Reader {
        text,
        escape,
        arguments: BTreeMap::new(),
        entrypoint: None,
        command: None,
        user: false,
        workdir: false,
    };
    let mut template: Option<Template> = None;
    for instruction in parsed.instructions {
        template = match (template, instruction) {
            (Some(_), Instruction::From(from)) => {
                return Err(reader.wrong(from.from.span.start, "a second stage; a template has one"));
            }
            (None, Instruction::From(from)) => {
                reader.no_options(&from.options)?;
                let image = reader.filled(&from.image.value, from.image.span.start)?;
                // Where a Dockerfile begins (protocol fact).
                Some(Template::from_image(image).user("root").workdir("/"))
            }
            (template, Instruction::Arg(argument)) => {
                reader.argument(template, &argument.arguments.value, argument.arg.span.start)?
            }
            (None, other) => return Err(reader.wrong(start(&other), "it stands before FROM")),
            (Some(template), other) => Some(reader.step(template, other)?),
        };
    }
    let Some(mut template) = template else { return Err(Error::invalid("Dockerfile: it has no FROM")) };
    if !reader.user {
        template = template.user(DEFAULT_USER);
    }
    if !reader.workdir {
        template = template.workdir("/home/user");
    }
    let start: Vec<String> = reader.entrypoint.into_iter().chain(reader.command).collect();
    if !start.is_empty() {
        template = template.start_command(start.join(" "), Ready::after(START_TIME));
    }
    template.check()?;
    Ok(template)
}

struct Reader<'t> {
    text: &'t str,
    escape: char,
    /// Defaults of ARG, for FROM.
    arguments: BTreeMap<String, String>,
    entrypoint: Option<String>,
    command: Option<String>,
    user: bool,
    workdir: bool,
}

impl Reader<'_> {
    fn step(&mut self, template: Template, instruction: Instruction<'_>) -> Result<Template, Error> {
        let at = start(&instruction);
        Ok(match instruction {
            Instruction::Run(run) => {
                self.no_options(&run.options)?;
                if !run.here_docs.is_empty() {
                    return Err(self.wrong(at, "here-documents are not supported"));
                }
                template.run(self.line(&run.arguments))
            }
            Instruction::Copy(copy) => {
                let owner = self.copy_options(&copy.options)?;
                self.copy(template, &copy.src, &copy.dest.value, &owner, at)?
            }
            Instruction::Add(add) => {
                let owner = self.copy_options(&add.options)?;
                if add.src.iter().any(is_archive) {
                    let why = "ADD unpacks an archive, which no step does; copy it by COPY, and unpack it by RUN";
                    return Err(self.wrong(at, why));
                }
                self.copy(template, &add.src, &add.dest.value, &owner, at)?
            }
            Instruction::Workdir(workdir) => {
                self.workdir = true;
                template.workdir(self.word(&workdir.arguments.value, at)?)
            }
            Instruction::User(user) => {
                self.user = true;
                template.user(self.word(&user.arguments.value, at)?)
            }
            Instruction::Env(env) => template.set_envs(self.pairs(&env.arguments.value, at)?),
            Instruction::Cmd(command) => {
                self.command = Some(self.line(&command.arguments));
                template
            }
            Instruction::Entrypoint(entrypoint) => {
                self.entrypoint = Some(self.line(&entrypoint.arguments));
                template
            }
            // Of no meaning to a sandbox.
            Instruction::Expose(_)
            | Instruction::Volume(_)
            | Instruction::Label(_)
            | Instruction::Maintainer(_)
            | Instruction::Stopsignal(_)
            | Instruction::Healthcheck(_) => template,
            _ => return Err(self.wrong(at, "this instruction has no place in a template")),
        })
    }

    /// An argument's default is a variable of the steps, and what FROM may name.
    fn argument(&mut self, template: Option<Template>, text: &str, at: usize) -> Result<Option<Template>, Error> {
        let words = shlex::split(text).ok_or_else(|| self.wrong(at, "a quote is not closed"))?;
        let mut pairs = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((&word, ""));
            self.arguments.insert(name.to_owned(), value.to_owned());
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(template.map(|template| template.set_envs(pairs)))
    }

    fn copy(
        &self,
        mut template: Template,
        sources: &[Source<'_>],
        to: &str,
        (user, mode): &(Option<String>, Option<u32>),
        at: usize,
    ) -> Result<Template, Error> {
        for source in sources {
            let Source::Path(path) = source else {
                return Err(self.wrong(at, "here-documents are not supported"));
            };
            let from = path.value.as_ref();
            if from.contains("://") {
                return Err(self.wrong(at, "files are copied from here only, not from URLs"));
            }
            if from.contains('$') || to.contains('$') {
                return Err(self.wrong(at, "variables are not filled in in paths"));
            }
            // A leading slash is the context's in a Dockerfile.
            let from = from.trim_start_matches('/');
            let mut copy = CopyFiles::new(if from.is_empty() { "." } else { from }, to);
            if let Some(user) = user {
                copy = copy.user(user.as_str());
            }
            if let Some(mode) = mode {
                copy = copy.mode(*mode);
            }
            template = template.copy_files(copy);
        }
        Ok(template)
    }

    fn copy_options(&self, options: &[Flag<'_>]) -> Result<(Option<String>, Option<u32>), Error> {
        let (mut user, mut mode) = (None, None);
        for option in options {
            let at = option.flag_span().start;
            match (option.name.value.as_ref(), &option.value) {
                ("chown", Some(value)) => user = Some(value.value.clone().into_owned()),
                ("chmod", Some(value)) => {
                    let parsed = u32::from_str_radix(&value.value, 8);
                    mode = Some(parsed.map_err(|_| self.wrong(at, "--chmod wants digits, such as 755"))?);
                }
                (name, _) => return Err(self.wrong(at, &format!("--{name} is not supported"))),
            }
        }
        Ok((user, mode))
    }

    fn no_options(&self, options: &[Flag<'_>]) -> Result<(), Error> {
        match options.first() {
            None => Ok(()),
            Some(option) => {
                let why = format!("--{} is not supported", option.name.value);
                Err(self.wrong(option.flag_span().start, &why))
            }
        }
    }

    /// A command as a line for a shell.
    fn line(&self, command: &Command<'_>) -> String {
        match command {
            Command::Exec(words) => words.value.iter().map(|word| quote(&word.value)).collect::<Vec<_>>().join(" "),
            Command::Shell(line) => line.value.to_owned(),
            _ => String::new(),
        }
    }

    /// An argument without its quotes and escapes, as Docker takes it: blanks end nothing. References to variables are left for
    /// the server.
    fn word(&self, text: &str, at: usize) -> Result<String, Error> {
        let (mut word, mut quote, mut letters) = (String::with_capacity(text.len()), None, text.chars());
        while let Some(letter) = letters.next() {
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(end), letter) if letter == end => quote = None,
                (None, letter) if letter == self.escape => word.extend(letters.next()),
                (Some('"'), letter) if letter == self.escape => {
                    let next = letters.next();
                    // Elsewhere in double quotes it is a character.
                    if next.is_none_or(|next| next != '"' && next != '$' && next != self.escape) {
                        word.push(letter);
                    }
                    word.extend(next);
                }
                (_, letter) => word.push(letter),
            }
        }
        if quote.is_some() { Err(self.wrong(at, "a quote is not closed")) } else { Ok(word) }
    }

    /// `NAME=value …`, or in the old form `NAME value`. References to variables are left for the server, who knows the image's.
    fn pairs(&self, text: &str, at: usize) -> Result<Vec<(String, String)>, Error> {
        let text = text.trim();
        let first = text.split(char::is_whitespace).next().unwrap_or_default();
        if !first.contains('=') {
            let value = text[first.len()..].trim();
            return Ok(vec![(first.to_owned(), value.to_owned())]);
        }
        let words = shlex::split(text).ok_or_else(|| self.wrong(at, "a quote is not closed"))?;
        let pair = |word: String| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        words.into_iter().map(|word| pair(word).ok_or_else(|| self.wrong(at, "a variable has no value"))).collect()
    }

    /// Fills in `$NAME` and `${NAME}`.
    fn filled(&self, text: &str, at: usize) -> Result<String, Error> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            let (name, next) = match after.strip_prefix('{') {
                Some(braced) => braced.split_once('}').ok_or_else(|| self.wrong(at, "a brace is not closed"))?,
                None => {
                    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            let value = self.arguments.get(name).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| self.wrong(at, &format!("${{{name}}} has no ARG with a default")))?;
            filled.push_str(value);
            rest = next;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn wrong(&self, at: usize, why: &str) -> Error {
        let line = self.text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        Error::invalid(format!("Dockerfile: line {line}: {why}"))
    }
}

fn is_archive(source: &Source<'_>) -> bool {
    let Source::Path(path) = source else { return false };
    let name = path.value.to_ascii_lowercase();
    ARCHIVES.iter().any(|end| name.ends_with(end))
}

/// Where an instruction stands in the text. Of those that are passed over nobody asks.
fn start(instruction: &Instruction<'_>) -> usize {
    let span = match instruction {
        Instruction::Add(add) => &add.add.span,
        Instruction::Cmd(command) => &command.cmd.span,
        Instruction::Copy(copy) => &copy.copy.span,
        Instruction::Entrypoint(entrypoint) => &entrypoint.entrypoint.span,
        Instruction::Env(env) => &env.env.span,
        Instruction::Onbuild(onbuild) => &onbuild.onbuild.span,
        Instruction::Run(run) => &run.run.span,
        Instruction::Shell(shell) => &shell.shell.span,
        Instruction::User(user) => &user.user.span,
        Instruction::Workdir(workdir) => &workdir.workdir.span,
        _ => return 0,
    };
    span.start
}

/// Writes a recipe.
pub(super) fn write(template: &Template) -> Result<String, Error> {
    template.check()?;
    let Base::Image { name, .. } = &template.base else {
        return Err(Error::invalid("to_dockerfile: it begins with a template, which no Dockerfile can name"));
    };
    let words = template.steps.iter().flat_map(|step| match &step.kind {
        StepKind::Copy(copy) => vec![&copy.from, &copy.to],
        StepKind::Plain("RUN", args) => args.iter().skip(1).collect(),
        StepKind::Plain(_, args) => args.iter().collect(),
    });
    if let Some(text) = words.into_iter().find(|text| text.contains(['\n', '\r']) || ends_with_escape(text)) {
        let why = "holds or continues a line, which one line of a Dockerfile cannot hold";
        return Err(Error::invalid(format!("to_dockerfile: {text:?} {why}")));
    }
    let mut text = format!("FROM {name}\n");
    let mut user = DEFAULT_USER;
    for step in &template.steps {
        let _ = match &step.kind {
            StepKind::Copy(copy) => writeln!(text, "{}", copy_line(copy)?),
            StepKind::Plain("RUN", args) => {
                let line = command(args.first().map_or("", String::as_str));
                match args.get(1).filter(|other| *other != user) {
                    None => writeln!(text, "RUN {line}"),
                    Some(other) => writeln!(text, "USER {}\nRUN {line}\nUSER {}", word(other), word(user)),
                }
            }
            StepKind::Plain("USER", args) => {
                user = args.first().map_or(user, String::as_str);
                writeln!(text, "USER {}", word(user))
            }
            StepKind::Plain("ENV", args) => {
                let pairs = args.chunks_exact(2).map(|pair| format!("{}={}", pair[0], quote(&pair[1])));
                writeln!(text, "ENV {}", pairs.collect::<Vec<_>>().join(" "))
            }
            StepKind::Plain(kind, args) => writeln!(text, "{kind} {}", word(&args.join(" "))),
        };
    }
    if let Some(start) = &template.start {
        let _ = writeln!(text, "ENTRYPOINT {}", command(start));
    }
    Ok(text)
}

/// A COPY. Paths that words could not hold are written in the JSON form.
fn copy_line(copy: &CopyFiles) -> Result<String, Error> {
    let CopyFiles { from, to, .. } = copy;
    let wrong = |text: &str, why: &str| Err(Error::invalid(format!("to_dockerfile: {text:?} {why}")));
    if let Some(path) = [from, to].into_iter().find(|path| path.contains('$')) {
        return wrong(path, "holds a $, which a Dockerfile takes for a variable");
    }
    if from.contains("://") {
        return wrong(from, "would be read as a URL");
    }
    let mut line = "COPY".to_owned();
    if let Some(owner) = copy.user.as_deref().filter(|owner| !owner.is_empty()) {
        if owner.contains(|c: char| c.is_whitespace() || "\"'\\$".contains(c)) {
            return wrong(owner, "is no owner that a Dockerfile can name");
        }
        let _ = write!(line, " --chown={owner}");
    }
    if let Some(mode) = copy.mode {
        let _ = write!(line, " --chmod={mode:04o}");
    }
    let is_plain = |path: &&String| {
        let begins = ["[", "--", "<<"].iter().any(|begin| path.starts_with(begin));
        !begins && !path.contains(|c: char| c.is_whitespace() || "\"'\\".contains(c))
    };
    let _ = if [from, to].iter().all(is_plain) {
        write!(line, " {from} {to}")
    } else {
        write!(line, " {}", serde_json::json!([from, to]))
    };
    Ok(line)
}

/// An instruction's one argument: as it is, or in quotes where it would be read as something else.
fn word(text: &str) -> Cow<'_, str> {
    if text.trim() == text && !text.contains(['"', '\'', '\\']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")))
}

/// A line for a shell as an instruction's argument: as it is, or, where that would be read as something else, in the exec form.
fn command(line: &str) -> String {
    let begins = ["[", "--", "#"].iter().any(|begin| line.trim_start().starts_with(begin));
    if begins || line.contains(['\n', '\r']) || line.contains("<<") || ends_with_escape(line) {
        serde_json::json!(["/bin/sh", "-c", line]).to_string()
    } else {
        line.to_owned()
    }
}

fn ends_with_escape(text: &str) -> bool {
    text.trim_end().ends_with('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<(String, Vec<String>)> {
        let start = read(text).unwrap().start_build(false, &[]);
        start.steps.unwrap().into_iter().map(|step| (step.r#type, step.args.unwrap())).collect()
    }

    #[test]
    fn a_dockerfile_becomes_steps() {
        let text = "# comment\nARG V=12\nFROM debian:${V}-slim AS base\nARG NAME=x\nENV A=1 B=\"two words\"\nENV OLD some value\n\
                    ENV PATH=/opt/bin:$PATH\nWORKDIR /app\nCOPY --chown=app --chmod=755 a.txt b/ /dst/\nADD / /all\n\
                    RUN apt-get update && \\\n    apt-get install -y jq\nRUN [\"echo\", \"a b\"]\nEXPOSE 80\nUSER app\nCMD [\"serve\", \"-p\", \"8 0\"]\n";
        let plain = |kind: &str, args: &[&str]| (kind.to_owned(), args.iter().map(|&arg| arg.to_owned()).collect());
        let expected = [
            plain("USER", &["root"]),
            plain("WORKDIR", &["/"]),
            plain("ENV", &["NAME", "x"]),
            plain("ENV", &["A", "1", "B", "two words"]),
            plain("ENV", &["OLD", "some value"]),
            plain("ENV", &["PATH", "/opt/bin:$PATH"]),
            plain("WORKDIR", &["/app"]),
            plain("COPY", &["a.txt", "/dst/", "app", "0755"]),
            plain("COPY", &["b/", "/dst/", "app", "0755"]),
            plain("COPY", &[".", "/all", "", ""]),
            plain("RUN", &["apt-get update &&     apt-get install -y jq"]),
            plain("RUN", &["echo 'a b'"]),
            plain("USER", &["app"]),
        ];
        assert_eq!(steps(text), expected);
        let start = read(text).unwrap().start_build(false, &[]);
        assert_eq!(start.from_image.unwrap(), "debian:12-slim");
        assert_eq!((start.start_cmd.unwrap(), start.ready_cmd.unwrap()), ("serve -p '8 0'".into(), "sleep 20".into()));
        assert_eq!(steps("FROM a")[2..], [plain("USER", &["user"]), plain("WORKDIR", &["/home/user"])]);
    }

    #[test]
    fn comments_among_the_lines_of_a_command_are_no_part_of_it() {
        let text = "# escape=\\\nFROM a\nRUN one && \\ \n  # why two\n\n  two \\\n# three \\\n  | 'it''s'\nENV A=1 \\\n  # B\n  B=2\nCMD [\"a\", \\\n # b\n \"c\"]\n";
        let plain = |kind: &str, args: &[&str]| (kind.to_owned(), args.iter().map(|&arg| arg.to_owned()).collect());
        let expected = [plain("RUN", &["one &&   two   | 'it''s'"]), plain("ENV", &["A", "1", "B", "2"])];
        assert_eq!(steps(text)[2..4], expected);
        assert_eq!(read(text).unwrap().start_build(false, &[]).start_cmd.unwrap(), "a c");
        let text = "# escape=`\nFROM a\nRUN dir C:\\`\n  # all`\n  x\nRUN y\\\nUSER u\n";
        assert_eq!(steps(text)[2..5], [plain("RUN", &["dir C:\\  x"]), plain("RUN", &["y\\"]), plain("USER", &["u"])]);
    }

    #[test]
    fn what_has_no_place_in_a_template_is_named_with_its_line() {
        for (text, words) in [
            ("", "Dockerfile"),
            ("FROM a\nFROM b", "line 2: a second stage"),
            ("FROM --platform=x a", "line 1: --platform"),
            ("FROM $X", "${X} has no ARG"),
            ("FROM a\nCOPY --from=b /x /y", "line 2: --from"),
            ("FROM a\nCOPY ../x /y", "leads outside"),
            ("FROM a\nADD https://e.com/x /y", "not from URLs"),
            ("FROM a\nONBUILD RUN x", "line 2: this instruction"),
            ("FROM a\nENV A='b", "a quote is not closed"),
            ("FROM a\nRUN a \\\n # b\n\n c\nONBUILD RUN x", "line 6: this instruction"),
            ("FROM a\nRUN a\\\\\nRUN b", "line 2: it ends with two escape characters"),
            ("FROM a\nNONSENSE x", "line"),
            ("FROM a\nWORKDIR '/a", "line 2: a quote is not closed"),
            ("FROM a\nUSER \"me", "line 2: a quote is not closed"),
            ("FROM a\nUSER ''", "USER: an argument is empty"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn an_archive_that_docker_would_unpack_is_not_copied() {
        for name in ["x.tar", "a/x.tar.gz", "x.tgz", "x.tar.bz2", "x.tbz2", "x.tar.xz", "x.txz", "X.TAR.ZST", "*.tar"] {
            let error = read(&format!("FROM a\nADD {name} /y")).unwrap_err().to_string();
            assert!(error.contains("line 2: ADD unpacks an archive"), "{error}");
            drop(read(&format!("FROM a\nCOPY {name} /y")).unwrap());
        }
        for name in ["x.gz", "tar", "x.tar.md", "tgz"] {
            drop(read(&format!("FROM a\nADD {name} /y")).unwrap());
        }
    }

    #[test]
    fn quotes_around_a_folder_or_a_user_are_none_of_it() {
        for (written, meant) in [
            ("/a b", "/a b"),
            (r#""/a b""#, "/a b"),
            ("'/a b'/c", "/a b/c"),
            (r"/a\ b\'", "/a b'"),
            (r#""/a\"b\c\\""#, r#"/a"b\c\"#),
            (r"'/a\b'", r"/a\b"),
            ("/a/$B/${C:-d}", "/a/$B/${C:-d}"),
        ] {
            let read = steps(&format!("FROM a\nWORKDIR {written}\nUSER {written}\n"));
            assert_eq!(read[2..], [("WORKDIR".into(), vec![meant.into()]), ("USER".into(), vec![meant.into()])]);
        }
        let windows = steps("# escape=`\nFROM a\nWORKDIR C:\\x` y\n");
        assert_eq!(windows[2], ("WORKDIR".into(), vec![r"C:\x y".into()]));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let read = steps("\u{feff}# escape=`\nFROM a\nRUN b `\n c\nRUN d\\\n");
        assert_eq!(read[2..4], [("RUN".into(), vec!["b  c".into()]), ("RUN".into(), vec!["d\\".into()])]);
        assert_eq!(steps("\u{feff}FROM a\nRUN b\n"), steps("FROM a\nRUN b\n"));
        let error = super::read("\u{feff}FROM a\nONBUILD RUN x").unwrap_err().to_string();
        assert!(error.contains("line 2: this instruction"), "{error}");
    }

    #[test]
    fn commands_of_another_user_are_written_between_two_users() {
        let plain = |kind: &str, args: &[&str]| (kind.to_owned(), args.iter().map(|&arg| arg.to_owned()).collect());
        let recipe = Template::from_image("debian:12").run_as("root", "a").run_as("root", "b").run("c").user("me");
        let recipe = recipe.run_as("me", "d").run_as("you", "e").copy("x", "/x").run_as("root", "f");
        // Where nothing was said, steps are the sandboxes' user's.
        let expected = [
            plain("USER", &["root"]),
            plain("RUN", &["a"]),
            plain("USER", &["user"]),
            plain("USER", &["root"]),
            plain("RUN", &["b"]),
            plain("USER", &["user"]),
            plain("RUN", &["c"]),
            plain("USER", &["me"]),
            plain("RUN", &["d"]),
            plain("USER", &["you"]),
            plain("RUN", &["e"]),
            plain("USER", &["me"]),
            plain("COPY", &["x", "/x", "", ""]),
            plain("USER", &["root"]),
            plain("RUN", &["f"]),
            plain("USER", &["me"]),
        ];
        assert_eq!(steps(&recipe.to_dockerfile().unwrap())[2..18], expected);
    }

    #[test]
    fn what_a_dockerfile_cannot_hold_is_not_written() {
        let base = || Template::from_image("debian:12");
        for (recipe, words) in [
            (base().copy("$x", "/x"), "\"$x\" holds a $"),
            (base().copy("x", "/a$b"), "\"/a$b\" holds a $"),
            (base().copy("a://b", "/x"), "\"a://b\" would be read as a URL"),
            (base().copy_files(CopyFiles::new("x", "/x").user("a b")), "\"a b\" is no owner"),
        ] {
            let error = recipe.to_dockerfile().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_was_written_is_read_as_the_same_steps() {
        let recipe = Template::from_image("debian:12")
            .set_envs([("A", "it's")])
            .copy("x", "/x")
            .copy_files(CopyFiles::new("x", "/owned/").user("me:us").mode(0o4755))
            .copy_files(CopyFiles::new("my files", "/a b/").user("1000"))
            .copy_files(CopyFiles::new("it's \"it\"", "/a\tb").mode(0o600))
            .copy(r"a\b", "/x")
            .copy("[x]", "/x")
            .copy("--x", "/<<x")
            .copy("<<x", "#x")
            .run("echo $A | wc -c")
            .workdir("/w")
            .workdir("/a b/ ")
            .workdir(r#"/it's "it" \ $A"#)
            .workdir("'/a'")
            .user("us")
            .user("\"me\"")
            .user("me");
        let text = recipe.to_dockerfile().unwrap();
        let read = steps(&text);
        let written = recipe.start_build(false, &[]).steps.unwrap();
        let written: Vec<_> = written.into_iter().map(|step| (step.r#type, step.args.unwrap())).collect();
        assert_eq!(read[2..], written);
        assert!(Template::from_template("x").to_dockerfile().unwrap_err().to_string().contains("no Dockerfile"));
        for line in ["one\ntwo", "one \\", "one \\ ", "--flag", " [x]", "# no", "cat <<'it'\nx\nit", "a 'b' \"c\" $d"] {
            let text = Template::from_image("debian:12").run(line).run("true").to_dockerfile().unwrap();
            let (read, plain) = (steps(&text), line == "a 'b' \"c\" $d");
            let expected = if plain { line.to_owned() } else { format!("/bin/sh -c {}", quote(line)) };
            assert_eq!(read[2..4], [("RUN".to_owned(), vec![expected]), ("RUN".to_owned(), vec!["true".to_owned()])]);
        }
        for value in ["one\ntwo", "one \\"] {
            let error = Template::from_image("debian:12").set_envs([("A", value)]).to_dockerfile().unwrap_err();
            assert!(error.to_string().contains("one line of a Dockerfile"), "{error}");
        }
    }
}
