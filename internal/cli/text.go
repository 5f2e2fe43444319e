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

// plain returns text without what could drive a terminal or hide what is written: control characters but
// line ends and tabs, C1, and the controls of writing direction (C18, S17). Bytes that are no UTF-8 become U+FFFD,
// since terminals take some of them for C1.
func plain(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r': // a bar that draws itself again
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

// plainJSON writes what plain would take away as escapes of JSON, which mean the same. Outside of strings
// JSON has none of it.
func plainJSON(text []byte) []byte {
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

// plainWriter is plain for a stream that comes in pieces, which may part a character.
type plainWriter struct {
	w     io.Writer
	clean func([]byte) []byte // nil: plain
	rest  []byte              // the beginning of a character, or a \r, whose end has not come
}

// Write writes what is whole.
func (p *plainWriter) Write(text []byte) (int, error) {
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

func (p *plainWriter) print(text []byte) error {
	if p.clean != nil {
		text = p.clean(text)
	} else {
		text = []byte(plain(string(text)))
	}
	_, err := p.w.Write(text)
	return err
}

// Close writes what never became whole.
func (p *plainWriter) Close() error {
	err := p.print(p.rest)
	p.rest = nil
	return err
}

// clip cuts text to n characters; the last one says that there was more.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// columns is how much room text takes in a line of a terminal: two columns for what East Asia writes and for pictures, none for what
// stands on the character before it.
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

// narrowed cuts text to n columns of a terminal; the last one says that there was more.
func narrowed(s string, n int) string {
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

// ago says how long a moment lies back, for tables (C17). It is empty for no moment and never negative.
func ago(t time.Time, now clock) string {
	if t.IsZero() {
		return ""
	}
	if at := now.stamp(t); at != "" {
		return at
	}
	return span(now.Sub(t)) + " ago"
}

// clock is when a command prints, and how it writes moments (C17).
type clock struct {
	time.Time
	form string // relative, rfc3339 or local; empty: relative
}

// now is the moment of what is printed.
func (a *app) now() clock { return clock{time.Now(), a.flags.TimeFormat} }

// stamp writes a moment where it is to be written whole; empty: it is to be relative.
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

// until says how long it is to a moment.
func (c clock) until(t time.Time) string {
	if at := c.stamp(t); at != "" {
		return at
	}
	return "in " + span(t.Sub(c.Time))
}

// span writes a duration short. A negative one is none.
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

// brush paints, or does not.
type brush bool

func (b brush) in(c color, s string) string {
	if !b || c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// painted is talk that has its colours, and nothing of the data.
type painted string

// mark paints what say is to write as it is.
func (b brush) mark(c color, s string) painted { return painted(b.in(c, s)) }

// paint says which streams have colours.
type paint struct{ data, talk brush } // stdout, stderr

// newPaint decides by the flag, then by the environment, then by what is a terminal (C3).
func newPaint(when string, terminal Terminal, env func(string) string) paint {
	switch {
	case when == "always":
		return paint{true, true}
	case when == "never", env("NO_COLOR") != "":
		return paint{}
	case env("CLICOLOR_FORCE") != "" && env("CLICOLOR_FORCE") != "0":
		return paint{true, true}
	case env("TERM") == "dumb":
		return paint{}
	}
	return paint{brush(terminal.Stdout), brush(terminal.Stderr)}
}
