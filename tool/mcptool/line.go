package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// unreadableAnswer encodes the answer that replaces an unreadable one of the server. The server has
// ended the call, so the result is the text as it stands.
func unreadableAnswer(id jsonrpc.ID, text []byte, why error) []byte {
	shown := strings.ToValidUTF8(string(ends(bytes.Clone(text))), "\uFFFD")
	said := fmt.Sprintf("The MCP server answered, but its answer cannot be read: %v. It says: %s", why, shown)
	result := map[string]any{"content": []any{map[string]string{"type": "text", "text": said}}}
	if failure.Match(text) && !success.Match(text) {
		result["isError"] = true
	}
	return mustJSON(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "result": result})
}

// maxShown is the number of bytes logged of a text that is no message.
const maxShown = 200

// shown returns the beginning of a text for the log.
func shown(text []byte) string {
	return strings.ToValidUTF8(string(text[:min(len(text), maxShown)]), "\uFFFD")
}

// maxLine is the maximum size in bytes of a line of a server: the same as that of an answer over
// HTTP.
const maxLine = maxBody

// edge is the size in bytes of the two ends of a line that are searched for its id, and all that is
// stored of a line that is too long.
const edge = 4 << 10

// nextLine reads a line without the surrounding space. With errTooLong it returns only the two
// ends, and the next line can be read.
func nextLine(in *bufio.Reader) (text []byte, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if text = append(text, part...); len(text) > maxLine {
			long, text = true, ends(text)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case long:
			return bytes.TrimSpace(bytes.Clone(ends(text))), errTooLong
		default:
			return bytes.TrimSpace(text), nil
		}
	}
}

// ends removes the middle of a text.
func ends(text []byte) []byte {
	if len(text) <= 2*edge {
		return text
	}
	return append(text[:edge], text[len(text)-edge:]...)
}

// readLine parses a message. It accepts only what the SDK accepts too, because the SDK closes a
// connection over an invalid message.
func readLine(text []byte) (line, error) {
	var whole struct{}
	if err := perdure.DecodeKnownJSON(text, &whole); err != nil {
		return line{}, err
	}
	m, err := jsonrpc.DecodeMessage(text)
	switch m := m.(type) {
	case *jsonrpc.Request:
		return line{id: m.ID, method: m.Method, params: m.Params}, nil
	case *jsonrpc.Response:
		return line{id: m.ID, result: m.Result, failed: m.Error != nil}, nil
	}
	return line{}, err
}

// Patterns for the usual encodings of a response: with its id before the result, or at the end.
const (
	idFirst = `^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*,`
	idLast  = `,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}$`
)

// The members of a response that say how its call ended.
var (
	success = regexp.MustCompile(`"result"\s*:`)
	failure = regexp.MustCompile(`"error"\s*:`)
)

// answeredBy finds the id that an unreadable response answers. A message that only mentions a call,
// such as a log notification, answers none.
func answeredBy(text []byte) (jsonrpc.ID, bool) {
	first, last := text[:min(len(text), edge)], text[max(0, len(text)-edge):]
	both := append(bytes.Clone(first), last...)
	if !bytes.Contains(both, []byte(`"jsonrpc"`)) || !success.Match(both) && !failure.Match(both) {
		return jsonrpc.ID{}, false
	}
	found := regexp.MustCompile(idFirst).FindSubmatch(first)
	if found == nil {
		found = regexp.MustCompile(idLast).FindSubmatch(last)
	}
	if found == nil {
		return jsonrpc.ID{}, false
	}
	return idOf(found[1])
}

// idOf decodes an id.
func idOf(text json.RawMessage) (jsonrpc.ID, bool) {
	var id any
	if perdure.DecodeJSON(text, &id) != nil {
		return jsonrpc.ID{}, false
	}
	if n, ok := id.(json.Number); ok {
		id, _ = n.Float64() // as the SDK decodes numbers
	}
	made, err := jsonrpc.MakeID(id)
	return made, err == nil && made.IsValid()
}
