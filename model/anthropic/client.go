package anthropic

import (
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/perdure/perdure/model"
)

// maxErrorBytes bounds what is read of an answer that is an error.
const maxErrorBytes = 64 << 10

// unredirected returns the client without its redirects: net/http would send the x-api-key header along, to any host.
func unredirected(c *http.Client) *http.Client {
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// inspect refuses what the SDK would take for an event stream, and bounds what it would read whole.
func (m *Model) inspect(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 400 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxErrorBytes), res.Body}
		return res, nil
	}
	text := ""
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode >= 300:
		text = fmt.Sprintf("the answer is a redirect (%d) to %q: give the final address as base URL", res.StatusCode, res.Header.Get("Location"))
	case kind != "" && kind != "text/event-stream":
		text = fmt.Sprintf("the answer is %s and no event stream: check the base URL", kind)
	default:
		return res, nil
	}
	res.Body.Close()
	return nil, &model.Error{Code: model.Misconfigured, Text: m.words(text)}
}
