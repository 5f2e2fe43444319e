package anthropictest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/perdure/perdure/model"
)

// fault is an error in the form of the API.
type fault struct {
	status     int
	kind       string
	text       string
	retryAfter int // seconds; 0: none
}

// malformed is the provider's answer to a malformed request.
func malformed(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, kind: "invalid_request_error", text: fmt.Sprintf(format, args...)}
}

func (f *fault) body() map[string]string { return map[string]string{"type": f.kind, "message": f.text} }

// refuse answers with an error instead of a stream.
func refuse(w http.ResponseWriter, f *fault) {
	text, err := json.Marshal(map[string]any{"type": "error", "error": f.body()})
	if err != nil {
		panic(err) // maps of strings always encode
	}
	w.Header().Set("Content-Type", "application/json")
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	w.WriteHeader(f.status)
	w.Write(text)
}

// faultOf returns an error in the provider's form: as in its documentation, or as users report it.
func faultOf(e *model.Error) *fault {
	f := &fault{status: http.StatusBadRequest, kind: "invalid_request_error", text: e.Text, retryAfter: int(math.Ceil(e.RetryAfter.Seconds()))}
	switch e.Code {
	case model.RateLimited:
		f.status, f.kind = http.StatusTooManyRequests, "rate_limit_error"
	case model.Unavailable:
		f.status, f.kind = 529, "overloaded_error"
	case model.Stalled:
		f.status, f.kind = http.StatusGatewayTimeout, "timeout_error"
	case model.TooLarge:
		f.text = "prompt is too long: " + e.Text
	case model.InvalidToolSchema:
		f.text = "tools.0.custom.input_schema: " + e.Text
	case model.Misconfigured:
		f.status, f.kind = http.StatusForbidden, "permission_error"
	case model.QuotaExhausted:
		f.text = "Your credit balance is too low to access the Anthropic API. " + e.Text
	case model.UsageLimit:
		f.text = "You have reached your specified API usage limits. " + e.Text
	case model.ModelUnavailable:
		f.status, f.kind = http.StatusNotFound, "not_found_error"
	default:
		f.status, f.kind = http.StatusConflict, "conflict_error"
	}
	return f
}
