//! The run as a picture that needs no script and reads in light and dark.

use std::fmt::Write as _;

use crate::{Kind, Row};

const WIDTH: usize = 720;
/// Where the bars begin, in pixels from the left.
const LEFT: usize = 190;
/// The length of a bar for all of the requests.
const LONGEST: usize = 400;
const LINE: usize = 30;
const TOP: usize = 64;

/// Bars by client: requests lost, byte bodies and streamed ones; and a number for those doubled.
pub(crate) fn draw(rows: &[Row], requests: usize) -> String {
    let clients: Vec<&str> = rows.iter().filter(|row| row.kind == Kind::Bytes).map(|row| row.client.as_str()).collect();
    let height = TOP + clients.len() * LINE * 2 + 34;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="13">
<title>Requests lost while a server retires each connection after 20 streams</title>
<style>text{{fill:#1f2328}}.dim{{fill:#656d76}}.bytes{{fill:#c2410c}}.stream{{fill:#f59e0b}}.none{{fill:#15803d}}rect.ground{{fill:#fff}}
@media (prefers-color-scheme: dark){{text{{fill:#e6edf3}}.dim{{fill:#8d96a0}}.none{{fill:#3fb950}}rect.ground{{fill:#0d1117}}}}</style>
<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>
<text x="16" y="26" font-size="15" font-weight="600">Of {requests} POSTs, lost: each connection is retired after 20 streams</text>
<text x="16" y="46" class="dim">64 at once over HTTP/2; upper bar: bytes as body, lower bar: a stream</text>
"#
    );
    for (index, client) in clients.iter().enumerate() {
        let top = TOP + index * LINE * 2;
        let weight = if index == 0 { 700 } else { 400 };
        let _ = writeln!(svg, r#"<text x="16" y="{}" font-weight="{weight}">{client}</text>"#, top + LINE + 2);
        for row in rows.iter().filter(|row| row.client == *client) {
            let (y, class) = if row.kind == Kind::Bytes { (top + 4, "bytes") } else { (top + LINE, "stream") };
            let width = (row.lost * LONGEST).div_ceil(requests).max(2);
            let class = if row.lost == 0 { "none" } else { class };
            let share = 100.0 * row.lost as f64 / requests as f64;
            let doubled = if row.doubled > 0 { format!(", {} doubled", row.doubled) } else { String::new() };
            let _ = writeln!(svg, r#"<rect class="{class}" x="{LEFT}" y="{y}" width="{width}" height="20" rx="2"/>"#);
            let (x, baseline, lost) = (LEFT + width + 8, y + 15, row.lost);
            let _ = writeln!(svg, r#"<text x="{x}" y="{baseline}">{lost} ({share:.1} %){doubled}</text>"#);
        }
    }
    let bottom = height - 12;
    let doubled = if rows.iter().all(|row| row.doubled == 0) { "none was processed twice; " } else { "" };
    let _ = writeln!(
        svg,
        r#"<text x="16" y="{bottom}" class="dim">{doubled}each client with its defaults, HTTP/2 on (cargo xtask bench retirement --write)</text>"#
    );
    svg.push_str("</svg>\n");
    svg
}
