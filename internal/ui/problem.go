package ui

import (
	"encoding/json"
	"net/http"
)

// codes are the codes of the problems of this package, which mean what they mean in the API.
var codes = map[int]string{
	http.StatusBadRequest: "invalid", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed", http.StatusConflict: "conflict",
	http.StatusTooManyRequests: "rate_limited", http.StatusServiceUnavailable: "unavailable",
}

// refuse writes a problem in the form of the API.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may be gone
		"type": "/docs/reference/problems#" + codes[status], "title": http.StatusText(status), "status": status,
		"detail": detail, "instance": r.URL.Path, "code": codes[status], "request_id": w.Header().Get("X-Request-Id"),
		"retryable": status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests,
	})
}
