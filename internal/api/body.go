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
	"github.com/perdure/perdure/internal/strictjson"
)

// readBody reads the whole body of a request and enforces the limits of media type, size and time
// (H16, S6).
func (a *API) readBody(out *responseWriter, r *http.Request, known route) error {
	limit, media := orDefault(known.maxBody, a.cfg.Limits.Body), orDefault(known.media, formJSON)
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	_ = out.control.SetReadDeadline(time.Now().Add(a.cfg.Timing.Read)) // ignored by writers without deadlines
	taking := &meteredBody{body: http.MaxBytesReader(out.ResponseWriter, r.Body, limit), budget: a.queues.bodies}
	body, err := io.ReadAll(taking)
	requestOf(r.Context()).reservedBytes = taking.reserved
	var late net.Error
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errNoBudget):
		a.countRefusal(r.Context(), "bodies")
		return err
	case errors.As(err, &late) && late.Timeout():
		out.Header().Set("Connection", "close")
		return &Problem{Status: http.StatusRequestTimeout, Detail: fmt.Sprintf("the body was not received within %s", a.cfg.Timing.Read)}
	case errors.As(err, &large):
		return tooLarge(limit)
	case err != nil:
		out.Header().Set("Connection", "close")
		return &Problem{Status: http.StatusBadRequest, Detail: "the connection ended before the whole body was received"}
	}
	_ = out.control.SetReadDeadline(time.Time{})
	if len(body) > 0 {
		if err := checkMedia(r, media); err != nil {
			return err
		}
	}
	requestOf(r.Context()).body = body
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func tooLarge(limit int64) error {
	return &Problem{
		Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is larger than %d bytes", limit),
		header: http.Header{"Connection": {"close"}},
	}
}

// checkMedia refuses an encoded body, and a body whose Content-Type is not the one wanted.
func checkMedia(r *http.Request, want string) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return &Problem{Status: http.StatusUnsupportedMediaType, Detail: "send the body without Content-Encoding"}
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if want == anyMedia && err == nil {
		return nil
	}
	if want == anyMedia {
		want = formBytes // as an example
	}
	if err != nil || kind != want || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &Problem{Status: http.StatusUnsupportedMediaType, Detail: "send the body with `Content-Type: " + want + "`"}
	}
	return nil
}

// decode parses the body of the request in ctx strictly (S7). A missing body yields the zero value
// if optional, else Invalid.
func decode[T any](ctx context.Context, optional bool) (T, error) {
	var value T
	body := requestOf(ctx).body
	if len(body) == 0 {
		if optional {
			return value, nil
		}
		return value, fmt.Errorf("%w request: a JSON body is required", perdure.Invalid)
	}
	err := perdure.DecodeJSON(body, &value)
	var fault *strictjson.Fault
	if errors.As(err, &fault) {
		return value, &fieldError{FieldError{Field: fault.Pointer, Message: fault.Text}}
	}
	return value, err
}
