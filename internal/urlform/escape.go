package urlform

import (
	"fmt"
	"strconv"
	"strings"
)

// escapePath removes the escapes of letters, digits, - . _ and ~, and writes the others in upper
// case.
func escapePath(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			out.WriteByte(path[i])
			continue
		}
		b, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
		if c := byte(b); err == nil && isUnreserved(c) {
			out.WriteByte(c)
		} else {
			out.WriteString(strings.ToUpper(path[i : i+3]))
		}
		i += 2
	}
	return out.String()
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// escapeQuery escapes the bytes that a request line cannot contain. Everything else in a query is
// left to the server.
func escapeQuery(query string) string {
	var out strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// maxLayers bounds how many times the escapes of a path may themselves be escaped.
const maxLayers = 8

// unescaped returns path with escapes removed once, twice and so on. Invalid escapes are kept, so
// that one of them cannot hide the others.
func unescaped(path string) []string {
	var layers []string
	for range maxLayers {
		next := unescape(path)
		if next == path {
			break
		}
		layers, path = append(layers, next), next
	}
	return layers
}

func unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if b, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(b))
				i += 2
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}
