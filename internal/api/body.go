package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// readBody reads the body of a request whole, within its limits of type, size and time (H16, S6).
func (a *API) readBody(out *answer, r *http.Request, pattern string) error {
	limit := a.cfg.MaxBody
	form := formJSON
	switch {
	case strings.HasSuffix(pattern, "/messages"):
		limit = a.cfg.MaxImages
	case strings.HasSuffix(pattern, importPath):
		limit, form = a.cfg.MaxArchive, formLines
	case strings.HasSuffix(pattern, filesPath):
		limit, form = a.cfg.MaxFile, ""
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	_ = out.control.SetReadDeadline(time.Now().Add(a.cfg.ReadTimeout)) // a writer without deadlines has none
	taking := &metered{in: io.LimitReader(r.Body, limit+1), room: a.gates.bodies}
	body, err := io.ReadAll(taking)
	requestOf(r.Context()).held = taking.taken
	var late net.Error
	switch {
	case errors.Is(err, errNoRoom):
		a.refused(r.Context(), "bodies")
		return err
	case errors.As(err, &late) && late.Timeout():
		out.Header().Set("Connection", "close")
		return &Problem{Status: http.StatusRequestTimeout, Detail: fmt.Sprintf("the body did not come within %s", a.cfg.ReadTimeout)}
	case err != nil:
		out.Header().Set("Connection", "close")
		return &Problem{Status: http.StatusBadRequest, Detail: "the body broke off"}
	case int64(len(body)) > limit:
		out.Header().Set("Connection", "close")
		return tooLarge(limit)
	}
	_ = out.control.SetReadDeadline(time.Time{})
	if len(body) > 0 {
		if err := mediaType(r, form); err != nil {
			return err
		}
	}
	requestOf(r.Context()).body = body
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func tooLarge(limit int64) error {
	return &Problem{
		Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body has more than %d bytes", limit),
		header: http.Header{"Connection": {"close"}},
	}
}

// mediaType refuses a body that is not said to be of a form, and plain; without a form it may be of any.
func mediaType(r *http.Request, form string) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return &Problem{Status: http.StatusUnsupportedMediaType, Detail: "send the body without Content-Encoding"}
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if form == "" && err == nil {
		return nil
	}
	if err != nil || kind != form || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &Problem{Status: http.StatusUnsupportedMediaType, Detail: "send the body with `Content-Type: " + orDefault(form, formBytes) + "`"}
	}
	return nil
}

// decode reads the body of the request in ctx strictly (S7). Without a body it is the zero value when that is
// allowed, else Invalid.
func decode[T any](ctx context.Context, optional bool) (T, error) {
	var value T
	body := requestOf(ctx).body
	if len(body) == 0 {
		if optional {
			return value, nil
		}
		return value, fmt.Errorf("%w request: it needs a body of JSON", perdure.Invalid)
	}
	err := perdure.DecodeJSON(body, &value)
	var fault *perdure.JSONError
	if errors.As(err, &fault) {
		return value, &fieldError{FieldError{Field: fault.Pointer, Message: fault.Text}}
	}
	return value, err
}
