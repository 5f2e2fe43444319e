package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// metaUnread marks an answer that the broker gave because the answer of the server could not be
// parsed.
const metaUnread = "io.github.perdure/unread"

// unread is an answer that could not be parsed: the server ended the call with an unknown outcome.
type unread struct{ why string }

// Error returns the reason.
func (u *unread) Error() string { return u.why }

// unreadAnswer encodes the answer that replaces an unreadable one.
func unreadAnswer(id jsonrpc.ID, why error) []byte {
	failed := map[string]any{"code": jsonrpc.CodeInternalError, "message": why.Error(), "data": map[string]bool{metaUnread: true}}
	return mustJSON(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "error": failed})
}

// asUnread converts the error of an answer to *unread if the broker gave it.
func asUnread(err error) error {
	var failed *jsonrpc.Error
	var says struct {
		Unread bool `json:"io.github.perdure/unread"`
	}
	if errors.As(err, &failed) && perdure.DecodeKnownJSON(failed.Data, &says) == nil && says.Unread {
		return &unread{failed.Message}
	}
	return err
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

// line is the part of a message that the broker needs.
type line struct {
	id     jsonrpc.ID // decoded; not valid: a notification
	method string     // empty: a response
	result json.RawMessage
	params json.RawMessage
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
		return line{id: m.ID, result: m.Result}, nil
	}
	return line{}, err
}

// Patterns for the usual encodings of a response: with its id before the result, or at the end.
const (
	idFirst = `^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*,`
	idLast  = `,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}$`
	outcome = `"(?:result|error)"\s*:`
)

// answeredBy finds the id that an unreadable response answers. A message that only mentions a call,
// such as a log notification, answers none.
func answeredBy(text []byte) (jsonrpc.ID, bool) {
	first, last := text[:min(len(text), edge)], text[max(0, len(text)-edge):]
	both := append(bytes.Clone(first), last...)
	if !bytes.Contains(both, []byte(`"jsonrpc"`)) || !regexp.MustCompile(outcome).Match(both) {
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
