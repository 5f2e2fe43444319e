package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// metaRefused marks an error that stands for a response of HTTP by which a request was refused.
const metaRefused = "io.github.perdure/refused"

// codeRefused is the code of such an error. Servers use it for errors of their own, so only
// metaRefused decides.
const codeRefused = -32000

// refusal is a request that was refused before it ran.
type refusal struct {
	why  string
	lost bool // the server does not know the session
}

// Error returns the reason.
func (r *refusal) Error() string { return r.why }

// asRefusal converts the error of a request to *refusal if HTTP refused it.
func asRefusal(err error) error {
	var failed *jsonrpc.Error
	var says struct {
		Refused *struct {
			Lost bool `json:"lost"`
		} `json:"io.github.perdure/refused"`
	}
	if errors.As(err, &failed) && perdure.DecodeKnownJSON(failed.Data, &says) == nil && says.Refused != nil {
		return &refusal{failed.Message, says.Refused.Lost}
	}
	return err
}

// encode returns the refusal as the answer to a request.
func (r *refusal) encode(id jsonrpc.ID) []byte {
	failed := map[string]any{"code": codeRefused, "message": r.why, "data": map[string]any{metaRefused: map[string]bool{"lost": r.lost}}}
	return mustJSON(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "error": failed})
}

// Texts of servers and gateways that refuse a request without running it. They are searched in the
// body of a response whose status alone does not say so.
var (
	lostWords = regexp.MustCompile(`(?i)session[^.\n]{0,60}(not found|not exist|unknown|invalid|no valid|expired|missing|no longer|terminated|not initiali[sz]ed|required|closed|not recogni[sz]ed|inactive|gone|lost)` +
		`|(unknown|invalid|no valid|expired|missing|terminated|no such|no active|unrecogni[sz]ed|bad|stale|no)[^.\n]{0,40}session|not (yet )?initiali[sz]ed|before initiali[sz]ation`)
	// The same without doubt, for a status that usually means something else.
	surelyLostWords = regexp.MustCompile(`(?i)(no valid|unknown|invalid|expired|missing|unrecogni[sz]ed|no such)\s+(mcp[-\s]?)?session|` +
		`(unknown|invalid|missing|expired) mcp-session-id|session([-\s]?id)?\s+(was |is )?(not found|not recogni[sz]ed|unknown|expired|invalid)`)
	badRequestWords = regexp.MustCompile(`(?i)bad request|invalid|malformed|missing|unsupported|unknown|required|parse error|cannot parse|not allowed|not acceptable|too large|unexpected|must |header|protocol version|session`)
	overloadWords   = regexp.MustCompile(`(?i)overload|no healthy upstream|no server is available|no available server|not ready|starting|start up|shutting down|restarting|draining|maintenance|too many|rate limit|capacity|busy|connection refused|connection failure|no route|no endpoints|unhealthy|not connected|try again|retry later|could not connect|failed to connect|not running|suspended|sleeping`)
	// Of a gateway that lost the server after it had passed the request on.
	cutWords = regexp.MustCompile(`(?i)connection termination|reset by peer|prematurely|timed? ?out|disconnect`)
)

// refusalOf judges a response of HTTP that is not a success; nil: the request may have run. session
// says that the request named a session.
func refusalOf(status int, body []byte, session bool) *refusal {
	text := errorText(body)
	r := &refusal{why: strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))}
	if text != "" {
		r.why += ": " + text
	}
	if session && status != http.StatusRequestTimeout && status != http.StatusConflict && surelyLostWords.MatchString(text) {
		r.lost = true
		return r
	}
	switch status {
	case http.StatusNotFound, http.StatusGone:
		r.lost = session && !isMethodError(body)
		return r
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusUpgradeRequired,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return r
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		r.lost = session && lostWords.MatchString(text)
		if r.lost || isError(body) || badRequestWords.MatchString(text) {
			return r
		}
	case http.StatusServiceUnavailable:
		if overloadWords.MatchString(text) && !cutWords.MatchString(text) {
			return r
		}
	}
	return nil
}

// isError reports whether a body is an error of JSON-RPC.
func isError(body []byte) bool {
	fields := map[string]json.RawMessage{}
	clean, _, ok := mend(trimText(body))
	return ok && perdure.DecodeJSON(clean, &fields) == nil && given(fields["error"]) && fields["jsonrpc"] != nil
}

// isMethodError reports whether a body is an error that says that the method or the parameters of a
// request are unknown. Since protocol version 2026-07-28 it has the status 404, too.
func isMethodError(body []byte) bool {
	var of struct {
		Error struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	clean, _, ok := mend(trimText(body))
	return ok && perdure.DecodeKnownJSON(clean, &of) == nil && !lostWords.MatchString(of.Error.Message) &&
		(of.Error.Code == jsonrpc.CodeMethodNotFound || of.Error.Code == jsonrpc.CodeInvalidParams)
}

// maxErrorText is the number of bytes shown of the body of an error.
const maxErrorText = 300

var (
	tags       = regexp.MustCompile(`(?s)<(?:script|style).*?</(?:script|style)>|<[^>]*>`)
	manySpaces = regexp.MustCompile(`\s+`)
)

// errorText returns what the body of an error says: the message of a JSON error, or the text of a
// page.
func errorText(body []byte) string {
	text := strings.ToValidUTF8(string(trimText(body)), "\uFFFD")
	if clean, _, ok := mend(trimText(body)); ok {
		fields := map[string]json.RawMessage{}
		_ = perdure.DecodeJSON(clean, &fields) // no object: it has no members
		said := fields["error"]
		if inner := map[string]json.RawMessage{}; perdure.DecodeJSON(said, &inner) == nil && given(inner["message"]) {
			said = inner["message"]
		}
		for _, member := range []json.RawMessage{said, fields["message"], fields["detail"], fields["error_description"]} {
			if given(member) {
				text = plainText(member)
				break
			}
		}
	}
	text = strings.TrimSpace(manySpaces.ReplaceAllString(tags.ReplaceAllString(text, " "), " "))
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// maxRefusal is the maximum size of the body of an error that is read.
const maxRefusal = 1 << 20

// refused answers a request whose response is not a success: with the error of JSON-RPC in the
// body, or with a refusal. A request that may have run fails with an error.
func (w *httpWire) refused(r *http.Request, q *httpRequest, resp *http.Response) (*http.Response, error) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // an incomplete body is judged as it is
	_ = resp.Body.Close()                                        // already read
	judged := refusalOf(resp.StatusCode, body, q.session)
	if judged != nil && judged.lost {
		w.c.lostSession(w.made)
	}
	if !q.id.IsValid() { // a notification, which needs no answer
		w.c.cfg.Log.Debug("the MCP server refused a notification", "server", w.c.cfg.Name, "method", q.method, "status", resp.Status)
		return respond(r, http.StatusAccepted, "", nil), nil
	}
	if judged == nil || !judged.lost {
		if text, ok := w.answerIn(q, body, judged != nil); ok {
			return respond(r, http.StatusOK, "application/json", text), nil
		}
	}
	if judged == nil {
		return nil, fmt.Errorf("HTTP %s: %s", resp.Status, cmp.Or(errorText(body), "no text"))
	}
	w.forget(q)
	return respond(r, http.StatusOK, "application/json", judged.encode(q.id)), nil
}

// respond makes a response.
func respond(r *http.Request, status int, kind string, body []byte) *http.Response {
	header := http.Header{}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
