package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// printable removes what could control a terminal or hide text: control characters except newlines
// and tabs, C1 controls, and the controls of writing direction. Bytes that are not valid UTF-8
// become U+FFFD, since some terminals interpret them as C1.
func printable(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r': // a progress bar that redraws itself
			return '\n'
		case r == '\n' || r == '\t':
			return r
		case unsafeRune(r):
			return -1
		}
		return r
	}, s)
}

func unsafeRune(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0 with ESC, DEL, C1
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidi
		return true
	}
	return false
}

// printableJSON escapes what plain would remove, which keeps the meaning of the JSON. These
// characters occur only inside JSON strings.
func printableJSON(text []byte) []byte {
	var b strings.Builder
	for _, r := range string(text) {
		if r != '\n' && unsafeRune(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return []byte(b.String())
}

// printableWriter is plain for a stream that arrives in pieces, which may split a character.
type printableWriter struct {
	w     io.Writer
	clean func([]byte) []byte // nil: plain
	rest  []byte              // an incomplete character, or a \r whose \n may follow
}

// Write writes all complete characters.
func (p *printableWriter) Write(text []byte) (int, error) {
	all := append(p.rest, text...)
	end := len(all)
	for back := 1; back <= min(utf8.UTFMax, len(all)); back++ {
		if c := all[len(all)-back]; c == '\r' && back == 1 || utf8.RuneStart(c) {
			if c == '\r' || !utf8.FullRune(all[len(all)-back:]) {
				end = len(all) - back
			}
			break
		}
	}
	p.rest = append([]byte(nil), all[end:]...)
	return len(text), p.print(all[:end])
}

func (p *printableWriter) print(text []byte) error {
	if p.clean != nil {
		text = p.clean(text)
	} else {
		text = []byte(printable(string(text)))
	}
	_, err := p.w.Write(text)
	return err
}

// Close writes the incomplete rest.
func (p *printableWriter) Close() error {
	err := p.print(p.rest)
	p.rest = nil
	return err
}

// clip cuts text to n characters. The last character of a cut text is an ellipsis.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// columns returns the width of text in columns of a terminal: wide East Asian characters and emoji
// take two columns, combining characters none.
func columns(s string) (n int) {
	for _, r := range s {
		switch {
		case unsafeRune(r), unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case isWide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

func isWide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

// truncateColumns cuts text to n columns of a terminal. The last column of a cut text is an
// ellipsis.
func truncateColumns(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	end, used := 0, 0
	for i, r := range s {
		if used += columns(string(r)); used > n-1 {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	return s[:end] + "…"
}

// ago says how long ago a time was, for tables. It is empty for the zero time and never negative.
func ago(t time.Time, now clock) string {
	if t.IsZero() {
		return ""
	}
	if at := now.stamp(t); at != "" {
		return at
	}
	return span(now.Sub(t)) + " ago"
}

// clock is the time of printing, and the format of times.
type clock struct {
	time.Time
	form string // relative, rfc3339 or local; empty: relative
}

// now returns the clock of this command.
func (a *app) now() clock { return clock{time.Now(), a.flags.TimeFormat} }

// stamp writes an absolute time; it is empty when times are relative.
func (c clock) stamp(t time.Time) string {
	switch c.form {
	case "rfc3339":
		return t.UTC().Format(time.RFC3339)
	case "local":
		return t.Local().Format(time.DateTime)
	}
	return ""
}

// age says how old a thing is.
func (c clock) age(t time.Time) string {
	if at := c.stamp(t); at != "" {
		return at
	}
	return span(c.Sub(t))
}

// until says how long it is until a time.
func (c clock) until(t time.Time) string {
	if at := c.stamp(t); at != "" {
		return at
	}
	return "in " + span(t.Sub(c.Time))
}

// span writes a duration with one unit. A negative duration counts as zero.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// count writes a number of things: 1 task, 2 tasks.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// color is an SGR parameter.
type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	bold   color = "1"
	dim    color = "2"
)

// colorizer adds colors to text, or does not.
type colorizer bool

func (b colorizer) in(c color, s string) string {
	if !b || c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// styled is a message that contains its colors, and no data.
type styled string

// mark colors a text that say must not filter.
func (b colorizer) mark(c color, s string) styled { return styled(b.in(c, s)) }

// streamColors says which streams have colors.
type streamColors struct{ stdout, stderr colorizer } // stdout, stderr

// newStreamColors decides by the flag, then by the environment, then by whether the stream is a
// terminal.
func newStreamColors(when string, terminal Terminal, env func(string) string) streamColors {
	switch {
	case when == "always":
		return streamColors{true, true}
	case when == "never", env("NO_COLOR") != "":
		return streamColors{}
	case env("CLICOLOR_FORCE") != "" && env("CLICOLOR_FORCE") != "0":
		return streamColors{true, true}
	case env("TERM") == "dumb":
		return streamColors{}
	}
	return streamColors{colorizer(terminal.Stdout), colorizer(terminal.Stderr)}
}
