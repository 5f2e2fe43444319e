package web

import (
	"bytes"
	"encoding/binary"
	"mime"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// metaBytes is the size of the beginning of a page that is searched for its character set.
const metaBytes = 1024

// decodeText returns a body as UTF-8, and the name of its character set. ok is false if the
// character set is not supported. declared is the charset of the header. html says that the body
// may name its charset too, and cut that the body is incomplete.
//
// It decodes UTF-8, US-ASCII, ISO-8859-1 and Windows-1252 (which browsers use for both) and UTF-16.
// A body with any other charset is accepted only if it is ASCII or valid UTF-8 anyway.
func decodeText(body []byte, declared string, html, cut bool) (text, charset string, ok bool) {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return string(body[3:]), "utf-8", true
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return fromUTF16(body[2:], binary.BigEndian), "utf-16be", true
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return fromUTF16(body[2:], binary.LittleEndian), "utf-16le", true
	}
	charset = strings.ToLower(strings.TrimSpace(declared))
	if charset == "" && html {
		charset = metaCharset(body)
	}
	switch charset {
	case "utf-16", "utf-16le":
		return fromUTF16(body, binary.LittleEndian), charset, true
	case "utf-16be":
		return fromUTF16(body, binary.BigEndian), charset, true
	case "iso-8859-1", "latin1", "latin-1", "l1", "iso8859-1", "iso_8859-1", "windows-1252", "cp1252", "x-cp1252":
		return fromWindows1252(body), charset, true
	case "utf-8", "utf8", "us-ascii", "ascii":
		return string(body), charset, true
	}
	switch {
	case isUTF8(body, cut) && bytes.IndexByte(body, 0x1b) < 0: // an escape starts another character set in ISO-2022
		return string(body), "utf-8", true
	case charset == "":
		return fromWindows1252(body), "windows-1252", true
	}
	return "", charset, false
}

// isUTF8 is like utf8.Valid, but allows an incomplete last rune if the text was cut.
func isUTF8(body []byte, cut bool) bool {
	for n := 0; n == 0 || cut && n < utf8.UTFMax && n <= len(body); n++ {
		if utf8.Valid(body[:len(body)-n]) {
			return true
		}
	}
	return false
}

// metaCharset returns the character set named at the beginning of a page. A page that is readable
// as ASCII so far cannot be UTF-16, whatever it claims.
func metaCharset(body []byte) string {
	m := markup{rest: string(body[:min(len(body), metaBytes)])}
	for {
		p, more := m.next()
		if !more {
			return ""
		}
		if p.kind != startPiece || p.name != "meta" {
			continue
		}
		name := p.attribute("charset")
		if name == "" && strings.EqualFold(p.attribute("http-equiv"), "content-type") {
			_, parameters, _ := mime.ParseMediaType(p.attribute("content"))
			name = parameters["charset"]
		}
		if name = strings.ToLower(strings.TrimSpace(name)); strings.HasPrefix(name, "utf-16") {
			return "utf-8"
		}
		if name != "" {
			return name
		}
	}
}

func fromUTF16(body []byte, order binary.ByteOrder) string {
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	return string(utf16.Decode(units))
}

// fromWindows1252 decodes Windows-1252: ISO-8859-1 with printable characters in place of some
// controls.
func fromWindows1252(body []byte) string {
	printable := []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")
	var text strings.Builder
	for _, b := range body {
		if 0x80 <= b && b < 0xa0 {
			text.WriteRune(printable[b-0x80])
			continue
		}
		text.WriteRune(rune(b))
	}
	return text.String()
}

// clean prepares a text for a result: valid UTF-8, no NUL, uniform line ends.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	return strings.NewReplacer("\x00", "", "\r\n", "\n", "\r", "\n").Replace(text)
}
