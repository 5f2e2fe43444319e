package anthropic

import (
	"fmt"
	"io"
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

// response is the response of one request. Its body is read here, because the SDK reads only what
// is exactly as documented.
type response struct{ *http.Response }

// keep keeps a response, and gives the SDK one without a body.
func (r *response) keep(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil || res.StatusCode >= 300 {
		return res, err
	}
	r.Response = res
	empty := *res
	empty.Body = http.NoBody
	return &empty, nil
}

// inspect turns a response that is not a success into a refusal with its body. The SDK would keep
// only what it can decode.
func (m *Model) inspect(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode < 300:
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode < 400 {
		return nil, &model.Error{Code: model.Misconfigured, Text: m.safeText(fmt.Sprintf(
			"the answer is a redirect (%d) to %q: use the final address as base URL", res.StatusCode, res.Header.Get("Location")))}
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) // the part before a read error is enough
	return nil, refusal{status: res.StatusCode, body: string(body), header: res.Header}
}
