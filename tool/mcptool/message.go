package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// message is a message of a server, as the SDK accepts it.
type message struct {
	line
	text []byte
}

// line is the part of a message that the broker needs.
type line struct {
	id     jsonrpc.ID // decoded; not valid: a notification
	method string     // empty: a response
	failed bool       // the response is an error
	result json.RawMessage
	params json.RawMessage
}

// byteOrderMark is written by some programs in front of their first text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// trimText removes white space and byte order marks around a text.
func trimText(text []byte) []byte {
	text = bytes.TrimSpace(text)
	for bytes.HasPrefix(text, byteOrderMark) {
		text = bytes.TrimSpace(text[len(byteOrderMark):])
	}
	return text
}

// messagesOf reads the messages of a line or an event. It is lenient: a batch is several messages,
// text around a message is skipped, and a response that breaks the format in a way that does not
// change its meaning is rewritten. noise says why a part of the text, or all of it, was skipped.
func messagesOf(text []byte) (all []message, noise error) {
	text = trimText(text)
	m, noise := readLine(text)
	if noise == nil && !mayEchoMethod(m, text) && (m.method != "" || m.failed || m.result != nil) {
		return []message{{m, text}}, nil
	}
	for len(text) > 0 {
		at := bytes.IndexAny(text, "{[")
		if at < 0 {
			break
		}
		clean, rest, ok := mend(text[at:])
		if !ok { // a log line may have braces of its own in front of a message
			next := bytes.Index(text[at+1:], []byte(`{"jsonrpc"`))
			if next < 0 {
				break
			}
			text = text[at+1+next:]
			continue
		}
		text = rest
		all = append(all, mended(clean)...)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case noise == nil:
		noise = fmt.Errorf("%w message: it is not a JSON-RPC 2.0 message", perdure.Invalid)
	}
	return nil, noise
}

// mayEchoMethod reports whether a message that looks like a request may be a response that also has
// the method of its request.
func mayEchoMethod(m line, text []byte) bool {
	return m.method != "" && m.id.IsValid() && (bytes.Contains(text, []byte(`"result"`)) || bytes.Contains(text, []byte(`"error"`)))
}

// mended returns the messages of a mended value.
func mended(clean []byte) (all []message) {
	if clean[0] == '[' {
		var batch []json.RawMessage
		if perdure.DecodeJSON(clean, &batch) != nil {
			return nil
		}
		for _, one := range batch {
			if len(one) > 0 && one[0] == '{' {
				all = append(all, mended(one)...)
			}
		}
		return all
	}
	fields := map[string]json.RawMessage{}
	if perdure.DecodeJSON(clean, &fields) != nil {
		return nil
	}
	if text, ok := response(fields); ok {
		clean = text
	} else if fields["method"] == nil {
		return nil
	}
	if m, err := readLine(clean); err == nil {
		all = append(all, message{m, clean})
	}
	return all
}

// response writes the response of a message anew, if it is one.
func response(fields map[string]json.RawMessage) (text []byte, ok bool) {
	id, valid := idOf(fields["id"])
	failed, succeeded := given(fields["error"]), given(fields["result"])
	_, hasResult := fields["result"]
	if !valid || !failed && !hasResult && fields["method"] != nil {
		return nil, false
	}
	if fields["jsonrpc"] == nil { // a log entry may have an id and an error, too
		for key := range fields {
			if key != "id" && key != "result" && key != "error" {
				return nil, false
			}
		}
		if !succeeded && !failed {
			return nil, false
		}
	}
	written := map[string]any{"jsonrpc": "2.0", "id": id.Raw()}
	if failed {
		written["error"] = errorOf(fields["error"])
	} else {
		written["result"] = json.RawMessage(cmp.Or(string(fields["result"]), "null"))
	}
	return mustJSON(written), true
}

// given reports whether an optional member of a response says anything.
func given(member json.RawMessage) bool {
	switch string(member) {
	case "", "null", "false", `""`:
		return false
	}
	return true
}

// errorOf reads an error: an object with a code and a message, or whatever else a server sends as
// one.
func errorOf(text json.RawMessage) map[string]any {
	fields := map[string]json.RawMessage{}
	read := map[string]any{"code": jsonrpc.CodeInternalError, "message": plainText(text)}
	if perdure.DecodeJSON(text, &fields) != nil {
		return read
	}
	var code int64
	if perdure.DecodeJSON(bytes.Trim(fields["code"], `"`), &code) == nil && fields["code"] != nil {
		read["code"] = code
	}
	if given(fields["message"]) {
		read["message"] = plainText(fields["message"])
	}
	if given(fields["data"]) {
		read["data"] = fields["data"]
	}
	return read
}

// plainText returns the text of a JSON string, and any other value as it stands.
func plainText(value json.RawMessage) string {
	var text string
	if perdure.DecodeJSON(value, &text) == nil && bytes.HasPrefix(bytes.TrimSpace(value), []byte(`"`)) {
		return text
	}
	return strings.ToValidUTF8(string(value), "\uFFFD")
}
