//! How figures and tables look.

use std::fmt;

/// "12,345", or "-" for none.
pub fn whole(figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1.23", or "-" for none.
pub fn decimals(figure: Option<f64>) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"))
}

/// "100k", "1M".
pub fn size(number: u32) -> String {
    match number {
        0 => "0".to_owned(),
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A table as Markdown has it.
pub struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    pub fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>) -> Table {
        let heads: Vec<String> = heads.into_iter().map(Into::into).collect();
        let rule = heads.iter().map(|_| "---".to_owned()).collect();
        Table { lines: vec![heads, rule] }
    }

    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.lines.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(out, "| {} |", line.join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_separators() {
        for (figure, text) in [(7.4, "7"), (999.0, "999"), (1000.0, "1,000"), (1234567.0, "1,234,567")] {
            assert_eq!(whole(Some(figure)), text);
        }
    }

    #[test]
    fn round_sizes_are_short() {
        for (number, text) in [(0, "0"), (10, "10"), (1_000, "1k"), (100_000, "100k"), (1_000_000, "1M")] {
            assert_eq!(size(number), text);
        }
    }

    #[test]
    fn tables_are_markdown() {
        let mut table = Table::new(["what", "figure"]);
        table.row(["speed", "7"]);
        assert_eq!(table.to_string(), "| what | figure |\n| --- | --- |\n| speed | 7 |\n");
    }
}
