package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
)

// The actors of writes on the socket. Over TCP the actor is the principal.
const (
	actorUser     = "user"
	actorOperator = "operator" // if the header Perdure-Actor says so
)

// identify authenticates the caller and determines how much detail errors may show (H11). The
// returned request carries the principal in its context, which ends when the token is revoked or
// expires. The caller must call leave in any case. pattern names the requested operation.
func (a *API) identify(r *http.Request, req *request, pattern string) (_ *http.Request, leave func(), err error) {
	leave = func() {}
	if err := applyDisclosure(r, req); err != nil {
		return r, leave, err
	}
	if a.cfg.Local {
		req.actor = orDefault(r.Header.Get("Perdure-Actor"), actorUser)
		req.principal = req.actor
		if req.actor != actorUser && req.actor != actorOperator {
			return r, leave, fmt.Errorf("%w Perdure-Actor: use user or operator", perdure.Invalid)
		}
		return r.WithContext(req.telemetry.Authenticated(r.Context(), r)), leave, nil
	}
	req.actor, req.principal = access.Root, access.Root
	if a.probes[r.URL.Path] {
		return r, leave, nil
	}
	if a.routes[pattern].open { // strangers must not fill the queue of a principal
		req.principal = "address " + access.AddressOf(r.RemoteAddr)
		return r, leave, nil
	}
	principal, err := a.bearer(r)
	if err != nil {
		return r, leave, err
	}
	req.actor, req.principal = principal.Actor(), principal.ID
	ctx, leave := a.cfg.Keyring.Admit(r.Context(), principal)
	return r.WithContext(req.telemetry.Authenticated(ctx, r)), leave, nil
}

// bearer returns the principal of the token of a request.
func (a *API) bearer(r *http.Request) (access.Principal, error) {
	for _, name := range []string{"access_token", "token", "api_key", "key"} {
		if r.URL.Query().Has(name) {
			return access.Principal{}, unauthorized("a token in the query string ends up in logs; send the header `Authorization: Bearer TOKEN` instead, and replace this token")
		}
	}
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return access.Principal{}, unauthorized("send exactly one header `Authorization: Bearer TOKEN`")
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return access.Principal{}, unauthorized("send exactly one header `Authorization: Bearer TOKEN`")
	}
	principal, err := a.cfg.Keyring.Verify(r.Context(), strings.TrimSpace(token), r.RemoteAddr)
	var wait *access.Wait
	switch {
	case errors.As(err, &wait):
		return principal, &Problem{
			Status: http.StatusTooManyRequests, Detail: wait.Error(),
			header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.For.Seconds() + float64(time.Millisecond)/float64(time.Second))))}},
		}
	case errors.Is(err, access.Unknown):
		return principal, unauthorized(err.Error())
	}
	return principal, err
}

func unauthorized(detail string) *Problem {
	return &Problem{Status: http.StatusUnauthorized, Detail: detail, header: http.Header{"Www-Authenticate": {"Bearer"}}}
}

// revoked reports whether the token of a request was revoked or expired while the request was
// served.
func revoked(ctx context.Context) bool { return errors.Is(context.Cause(ctx), access.Ended) }
