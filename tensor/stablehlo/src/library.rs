//! Modules that other tools made: their functions become functions of a program.

use crate::func::{List, Types, push_quoted, put};
use crate::{ElementType, Func, Type, Value};
use std::collections::BTreeSet;
use std::ops::Range;

/// The functions of a StableHLO module, under names that no other library has, and the signature of the one to call.
///
/// The names begin with a hash of the functions. So a program has each function once, for any number of calls, and the
/// functions of two libraries never have the same name.
///
/// ```
/// use torchtpu_stablehlo::{ElementType::F32, Func, Library, Type};
///
/// let library = Library::parse(
///     "module @double { func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///        %y = stablehlo.add %x, %x : tensor<2xf32>
///        return %y : tensor<2xf32>
///      } }",
/// )?;
/// let mut f = Func::new();
/// let x = f.arg(Type::new(&[2], F32));
/// let y = f.call(&library, &[x]);
/// assert!(f.finish("segment", &y).contains("%0 = func.call @k"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    /// The text of the functions, all of them private.
    text: String,
    /// The name of the function to call.
    entry: String,
    args: Vec<Type>,
    results: Vec<Type>,
    /// For each argument whose memory a result may take, the number of that result.
    aliases: Vec<(usize, usize)>,
    hash: u128,
}

impl Library {
    /// Read the text of a module. The function to call is `@main`, or else the one public function.
    ///
    /// # Errors
    /// The reason why the module cannot be part of a program: it is damaged, has sizes or element types that programs
    /// cannot have, is written for several devices, or contains more than functions.
    pub fn parse(text: &str) -> Result<Library, String> {
        let mut reader = Reader::new(text)?;
        reader.skip_prologue()?;
        let functions = reader.module()?;
        let names: BTreeSet<&str> = functions.iter().map(|f| f.name).collect();
        if names.len() != functions.len() {
            return Err("two functions have the same name".to_string());
        }
        let mut public = functions.iter().filter(|f| f.is_public);
        let entry = match functions.iter().find(|f| f.name == "main") {
            Some(main) => main,
            None => match (public.next(), public.next()) {
                (Some(one), None) => one,
                _ => return Err("there is no function @main, and not exactly one public function".to_string()),
            },
        };
        let hash = fnv(reader.functions(&functions, "", entry.name, &names).as_bytes());
        let prefix = format!("k{hash:032x}_");
        let mut library = Library {
            text: reader.functions(&functions, &prefix, entry.name, &names),
            entry: format!("{prefix}{}", entry.name),
            args: Vec::new(),
            results: Vec::new(),
            aliases: Vec::new(),
            hash,
        };
        for (i, item) in reader.items(entry.args.clone()).into_iter().enumerate() {
            let (ty, attributes) = reader.typed(item, true)?;
            library.args.push(ty);
            if let Some(result) = attributes.split("tf.aliasing_output =").nth(1) {
                let digits: String = result.trim_start().chars().take_while(char::is_ascii_digit).collect();
                let result = digits.parse().map_err(|_| "tf.aliasing_output names no result".to_string())?;
                library.aliases.push((i, result));
            }
        }
        for item in reader.items(entry.results.clone()) {
            library.results.push(reader.typed(item, false)?.0);
        }
        let fits = |&(a, r): &(usize, usize)| library.results.get(r) == library.args.get(a);
        if !library.aliases.iter().all(fits) {
            return Err("a result cannot take the memory of an argument of another type".to_string());
        }
        Ok(library)
    }

    /// Types of the arguments.
    pub fn args(&self) -> &[Type] {
        &self.args
    }

    /// Types of the results.
    pub fn results(&self) -> &[Type] {
        &self.results
    }

    /// Pairs of an argument that the module donates, and the result that takes its memory.
    pub fn aliases(&self) -> &[(usize, usize)] {
        &self.aliases
    }

    /// Hash of the functions, without comments and locations.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// The text of a module without comments and locations.
    ///
    /// # Errors
    /// The reason why the text cannot be read.
    pub fn without_locations(text: &str) -> Result<String, String> {
        let mut reader = Reader::new(text)?;
        reader.skip_prologue()?;
        let start = reader.at;
        reader.module()?;
        let mut out = String::new();
        reader.tokens[start..reader.at].iter().for_each(|token| push(&mut out, *token));
        Ok(out)
    }

    /// Return a program that has only this library: its arguments and results are those of the function to call.
    pub fn program(&self) -> String {
        let mut f = Func::new();
        let args: Vec<Value> = self.args.iter().map(|ty| f.arg(ty.clone())).collect();
        let results = f.call(self, &args);
        f.finish("kernel", &results)
    }
}

impl Func {
    /// Call a library's function. The program gets the library's functions at the first call.
    pub fn call(&mut self, library: &Library, args: &[Value]) -> Vec<Value> {
        let given = args.iter().map(Value::ty);
        assert!(given.eq(&library.args), "call: ({}) given for ({})", Types(args), List(&library.args));
        match self.libraries.iter().find(|l| l.hash == library.hash) {
            Some(known) => assert!(known == library, "call: two libraries have the hash {:032x}", library.hash),
            None => self.libraries.push(library.clone()),
        }
        self.op_many(
            &library.results,
            format_args!(
                "func.call @{}({}) : ({}) -> ({})",
                symbol(&library.entry),
                List(args),
                Types(args),
                List(&library.results)
            ),
        )
    }
}

/// Append the functions of all libraries.
pub(crate) fn push_libraries(text: &mut String, libraries: &[Library]) {
    libraries.iter().for_each(|l| text.push_str(&l.text));
}

/// A name as MLIR takes it after `@`.
fn symbol(name: &str) -> String {
    if name.bytes().all(is_word) {
        return name.to_string();
    }
    let mut quoted = String::new();
    push_quoted(&mut quoted, name);
    quoted
}

/// Hash with 128-bit FNV-1a, which is the same on all machines.
fn fnv(bytes: &[u8]) -> u128 {
    let step = |h: u128, b: &u8| (h ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    /// Letters, digits, dots, with a sigil (`%`, `^`, `#`, `!`) before them if there is one.
    Word(&'a str),
    /// Return the name after `@`, without quotes.
    Symbol(&'a str),
    /// A literal with its quotes.
    Text(&'a str),
    Arrow,
    Mark(char),
    /// Skip space, comments and locations.
    Gap(&'a str),
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"_.$".contains(&b)
}

/// A function of the module, as ranges of tokens with their brackets.
struct Function<'a> {
    name: &'a str,
    is_public: bool,
    args: Range<usize>,
    results: Range<usize>,
    body: Range<usize>,
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Reader<'a>, String> {
        let bytes = text.as_bytes();
        let mut tokens = Vec::new();
        let mut at = 0;
        let run = |from: usize, f: &dyn Fn(u8) -> bool| {
            from + bytes[from..].iter().position(|&b| !f(b)).unwrap_or(bytes.len() - from)
        };
        let literal = |from: usize| -> Result<usize, String> {
            let mut i = from + 1;
            while i < bytes.len() {
                match bytes[i] {
                    b'\\' => i += 2,
                    b'"' => return Ok(i + 1),
                    _ => i += 1,
                }
            }
            Err("a text has no end".to_string())
        };
        while at < bytes.len() {
            let b = bytes[at];
            let (token, end) = match b {
                _ if b.is_ascii_whitespace() => {
                    let end = run(at, &|b| b.is_ascii_whitespace());
                    (Token::Gap(&text[at..end]), end)
                }
                b'/' if bytes[at..].starts_with(b"//") => (Token::Gap(""), run(at, &|b| b != b'\n')),
                b'"' => {
                    let end = literal(at)?;
                    (Token::Text(&text[at..end]), end)
                }
                b'@' if bytes.get(at + 1) == Some(&b'"') => {
                    let end = literal(at + 1)?;
                    (Token::Symbol(&text[at + 2..end - 1]), end)
                }
                b'@' => {
                    let end = run(at + 1, &is_word);
                    (Token::Symbol(&text[at + 1..end]), end)
                }
                b'-' if bytes.get(at + 1) == Some(&b'>') => (Token::Arrow, at + 2),
                _ if is_word(b) || b"%^#!".contains(&b) => {
                    let end = run(at + 1, &is_word);
                    (Token::Word(&text[at..end]), end)
                }
                _ if b.is_ascii() => (Token::Mark(char::from(b)), at + 1),
                _ => return Err(format!("unexpected {:?}", text[at..].chars().next().unwrap_or_default())),
            };
            tokens.push(token);
            at = end;
        }
        let mut reader = Reader { tokens, at: 0 };
        reader.leave_out_locations()?;
        Ok(reader)
    }

    /// Turn `loc(...)` into gaps.
    fn leave_out_locations(&mut self) -> Result<(), String> {
        for i in 0..self.tokens.len() {
            if self.tokens[i] == Token::Word("loc") && self.tokens.get(i + 1) == Some(&Token::Mark('(')) {
                let end = self.closing(i + 1)?;
                self.tokens[i..end].fill(Token::Gap(""));
            }
        }
        Ok(())
    }

    /// Return the position after the bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Result<usize, String> {
        let mut waiting = Vec::new();
        for (i, token) in self.tokens.iter().enumerate().skip(open) {
            match token {
                Token::Mark('(') => waiting.push(')'),
                Token::Mark('{') => waiting.push('}'),
                Token::Mark('[') => waiting.push(']'),
                Token::Mark(c @ (')' | '}' | ']')) => {
                    if waiting.pop() != Some(*c) {
                        return Err(format!("unexpected {c:?}"));
                    }
                    if waiting.is_empty() {
                        return Ok(i + 1);
                    }
                }
                _ => {}
            }
        }
        Err("the text ends within brackets".to_string())
    }

    fn peek(&mut self) -> Option<Token<'a>> {
        while let Some(Token::Gap(_)) = self.tokens.get(self.at) {
            self.at += 1;
        }
        self.tokens.get(self.at).copied()
    }

    fn accept(&mut self, token: Token<'_>) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: Token<'_>) -> Result<(), String> {
        if self.accept(token) {
            return Ok(());
        }
        Err(format!("expected {} but found {}", shown(Some(token)), shown(self.peek())))
    }

    /// Return the text from here to the closing bracket, with both brackets.
    fn bracketed(&mut self, open: char) -> Result<Range<usize>, String> {
        self.expect(Token::Mark(open))?;
        let start = self.at - 1;
        self.at = self.closing(start)?;
        Ok(start..self.at)
    }

    /// Skip the definitions of locations before or after a module.
    fn skip_prologue(&mut self) -> Result<(), String> {
        while let Some(Token::Word(word)) =
            self.peek().filter(|t| matches!(t, Token::Word(w) if w.starts_with(['#', '!'])))
        {
            if !word.starts_with("#loc") {
                return Err(format!("the alias {word} is not supported: print the module without aliases"));
            }
            self.at += 1;
            self.expect(Token::Mark('='))?;
        }
        Ok(())
    }

    fn module(&mut self) -> Result<Vec<Function<'a>>, String> {
        let is_wrapped = self.accept(Token::Word("module"));
        if is_wrapped {
            if let Some(Token::Symbol(_)) = self.peek() {
                self.at += 1;
            }
            if self.accept(Token::Word("attributes")) {
                let range = self.bracketed('{')?;
                self.check_devices(range)?;
            }
            self.expect(Token::Mark('{'))?;
        }
        let mut functions = Vec::new();
        while self.accept(Token::Word("func.func")) {
            functions.push(self.function()?);
        }
        if is_wrapped {
            self.expect(Token::Mark('}'))?;
        }
        let end = self.at;
        self.skip_prologue()?;
        let rest = self.peek();
        self.at = end;
        match rest {
            Some(found) => Err(format!("expected a function or the end but found {}", shown(Some(found)))),
            None if functions.is_empty() => Err("there is no function".to_string()),
            None => Ok(functions),
        }
    }

    /// Return an error for a module that is divided over devices.
    fn check_devices(&self, attributes: Range<usize>) -> Result<(), String> {
        let words: Vec<Token<'_>> =
            self.tokens[attributes].iter().filter(|t| !matches!(t, Token::Gap(_))).copied().collect();
        for three in words.windows(3) {
            if let [Token::Word(name), Token::Mark('='), Token::Word(n)] = three
                && matches!(*name, "mhlo.num_partitions" | "mhlo.num_replicas")
                && *n != "1"
            {
                return Err(format!("the module is for several devices: {name} is {n}"));
            }
        }
        Ok(())
    }

    fn function(&mut self) -> Result<Function<'a>, String> {
        let is_private = self.accept(Token::Word("private")) || self.accept(Token::Word("nested"));
        self.accept(Token::Word("public"));
        let Some(Token::Symbol(name)) = self.peek() else {
            return Err(format!("expected the name of a function but found {}", shown(self.peek())));
        };
        self.at += 1;
        let args = self.bracketed('(')?;
        let results = if self.accept(Token::Arrow) {
            if self.peek() == Some(Token::Mark('(')) {
                self.bracketed('(')?
            } else {
                let start = self.at;
                while !matches!(self.peek(), None | Some(Token::Mark('{') | Token::Word("attributes"))) {
                    self.at += 1;
                }
                start..self.at
            }
        } else {
            self.at..self.at
        };
        if self.accept(Token::Word("attributes")) {
            self.bracketed('{')?;
        }
        if self.peek() != Some(Token::Mark('{')) {
            return Err(format!("the function @{name} has no body"));
        }
        let body = self.bracketed('{')?;
        Ok(Function { name, is_public: !is_private, args, results, body })
    }

    /// The text of functions, all of them private, under names with this prefix.
    fn functions(&self, functions: &[Function<'a>], prefix: &str, entry: &str, names: &BTreeSet<&str>) -> String {
        let mut out = String::new();
        for function in functions {
            let is_entry = function.name == entry;
            put(&mut out, format_args!("  func.func private @{}", symbol(&format!("{prefix}{}", function.name))));
            self.print(function.args.clone(), prefix, names, is_entry, &mut out);
            if !function.results.is_empty() {
                out.push_str(" -> ");
                self.print(function.results.clone(), prefix, names, is_entry, &mut out);
            }
            out.push(' ');
            self.print(function.body.clone(), prefix, names, false, &mut out);
            out.push('\n');
        }
        out
    }

    /// The items of a list in round brackets, or the one item without brackets.
    fn items(&self, list: Range<usize>) -> Vec<Range<usize>> {
        let mut list = list;
        if self.tokens.get(list.start) == Some(&Token::Mark('(')) {
            list = list.start + 1..list.end - 1;
        }
        let mut items = Vec::new();
        let (mut depth, mut start) = (0usize, list.start);
        for i in list.clone() {
            match self.tokens[i] {
                Token::Mark('(' | '{' | '[' | '<') => depth += 1,
                Token::Mark(')' | '}' | ']' | '>') => depth = depth.saturating_sub(1),
                Token::Mark(',') if depth == 0 => {
                    items.push(start..i);
                    start = i + 1;
                }
                _ => {}
            }
        }
        let is_empty = self.tokens[start..list.end].iter().all(|t| matches!(t, Token::Gap(_)));
        if !is_empty {
            items.push(start..list.end);
        }
        items
    }

    /// The type of an argument `%x: type {attributes}` or a result `type {attributes}`, and the attributes.
    fn typed(&self, item: Range<usize>, is_arg: bool) -> Result<(Type, String), String> {
        let mut parts = String::new();
        let (mut attributes, mut is_attribute) = (String::new(), false);
        let mut skips = is_arg;
        for token in &self.tokens[item] {
            is_attribute = is_attribute || *token == Token::Mark('{');
            let out = if is_attribute { &mut attributes } else { &mut parts };
            match token {
                Token::Mark(':') if skips => skips = false,
                _ if skips => {}
                Token::Gap(_) if is_attribute => out.push(' '),
                Token::Gap(_) => {}
                token => push(out, *token),
            }
        }
        Ok((tensor_type(&parts)?, attributes))
    }

    /// Append tokens, with the functions' new names. With `without_attributes`, leave out the text in curly brackets.
    fn print(
        &self,
        range: Range<usize>,
        prefix: &str,
        names: &BTreeSet<&str>,
        without_attributes: bool,
        out: &mut String,
    ) {
        let mut depth = 0usize;
        let mut last = Token::Gap("");
        for &token in &self.tokens[range] {
            if without_attributes {
                depth += usize::from(token == Token::Mark('{'));
                let is_inside = depth > 0;
                depth -= usize::from(token == Token::Mark('}'));
                if is_inside {
                    continue;
                }
            }
            match token {
                // The target of a custom call is not a function of the module.
                Token::Symbol(name)
                    if names.contains(name) && !matches!(last, Token::Word(w) if w.ends_with("custom_call")) =>
                {
                    put(out, format_args!("@{}", symbol(&format!("{prefix}{name}"))));
                }
                token => push(out, token),
            }
            if !matches!(token, Token::Gap(_)) {
                last = token;
            }
        }
    }
}

fn push(out: &mut String, token: Token<'_>) {
    match token {
        Token::Word(w) | Token::Text(w) | Token::Gap(w) => out.push_str(w),
        Token::Symbol(name) if name.bytes().all(is_word) => put(out, format_args!("@{name}")),
        Token::Symbol(name) => put(out, format_args!("@\"{name}\"")),
        Token::Arrow => out.push_str("->"),
        Token::Mark(c) => out.push(c),
    }
}

fn shown(token: Option<Token<'_>>) -> String {
    match token {
        None => "the end of the text".to_string(),
        Some(token) => {
            let mut text = String::new();
            push(&mut text, token);
            format!("`{text}`")
        }
    }
}

/// Read `tensor<2x3xf32>`.
fn tensor_type(text: &str) -> Result<Type, String> {
    let refuse = |why: &str| Err(format!("the type {text} {why}"));
    let Some(mut rest) = text.strip_prefix("tensor<").and_then(|t| t.strip_suffix('>')) else {
        return refuse("is no tensor");
    };
    let mut shape = Vec::new();
    while rest.starts_with(|c: char| c.is_ascii_digit() || c == '?') {
        let Some((size, after)) = rest.split_once('x') else { break };
        match size.parse::<usize>() {
            Ok(size) => shape.push(size),
            Err(_) if size == "?" => return refuse("has sizes that are not known"),
            Err(_) => return refuse("has a size that is no number"),
        }
        rest = after;
    }
    let name = rest.split_once(',').map_or(rest, |(name, _)| name);
    match ElementType::ALL.iter().find(|e| e.mlir() == name) {
        Some(element) => Ok(Type { shape, element: *element }),
        None => refuse("has elements that tensors cannot have"),
    }
}
