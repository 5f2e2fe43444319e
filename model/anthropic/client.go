package anthropic

import (
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/perdure/perdure/model"
)

// maxErrorBytes bounds what is read of an error response.
const maxErrorBytes = 64 << 10

// withoutRedirects returns the client without redirects. net/http would send the x-api-key header
// to any host.
func withoutRedirects(c *http.Client) *http.Client {
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// inspect refuses responses that the SDK would take for an event stream, and bounds error
// responses.
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
		text = fmt.Sprintf("the answer is a redirect (%d) to %q: use the final address as base URL",
			res.StatusCode, res.Header.Get("Location"))
	case kind != "" && kind != "text/event-stream":
		text = fmt.Sprintf("the answer is %s and not an event stream: check the base URL", kind)
	default:
		return res, nil
	}
	res.Body.Close()
	return nil, &model.Error{Code: model.Misconfigured, Text: m.safeText(text)}
}
