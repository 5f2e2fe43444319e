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

// The actors of writes on the socket. Over TCP it is the principal.
const (
	actorUser     = "user"
	actorOperator = "operator" // when it says so
)

// identify finds out who asks and how much they may be told (H11). The request that it returns has the principal in its
// context, which ends when their token does; leave is to be called in any case. The pattern is the operation that is asked for.
func (a *API) identify(r *http.Request, req *request, pattern string) (_ *http.Request, leave func(), err error) {
	leave = func() {}
	if err := narrow(r, req); err != nil {
		return r, leave, err
	}
	if a.cfg.Local {
		req.actor = orDefault(r.Header.Get("Perdure-Actor"), actorUser)
		req.principal = req.actor
		if req.actor != actorUser && req.actor != actorOperator {
			return r, leave, fmt.Errorf("%w Perdure-Actor: user or operator", perdure.Invalid)
		}
		return r.WithContext(req.told.Enter(r.Context(), r)), leave, nil
	}
	req.actor, req.principal = access.Root, access.Root
	if open(r.URL.Path) || isManual(pattern) {
		return r, leave, nil
	}
	who, err := a.bearer(r)
	if err != nil {
		return r, leave, err
	}
	req.actor, req.principal = who.Actor(), who.ID
	ctx, leave := a.cfg.Keyring.While(r.Context(), who)
	return r.WithContext(req.told.Enter(ctx, r)), leave, nil
}

// bearer is who holds the token of a request.
func (a *API) bearer(r *http.Request) (access.Principal, error) {
	for _, name := range []string{"access_token", "token", "api_key", "key"} {
		if r.URL.Query().Has(name) {
			return access.Principal{}, unauthorized("a token in the query ends in logs; send `Authorization: Bearer TOKEN`, and change this one")
		}
	}
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return access.Principal{}, unauthorized("send one header `Authorization: Bearer TOKEN`")
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return access.Principal{}, unauthorized("send one header `Authorization: Bearer TOKEN`")
	}
	who, err := a.cfg.Keyring.Verify(r.Context(), strings.TrimSpace(token), r.RemoteAddr)
	var wait *access.Wait
	switch {
	case errors.As(err, &wait):
		return who, &Problem{
			Status: http.StatusTooManyRequests, Detail: wait.Error(),
			header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.For.Seconds() + float64(time.Millisecond)/float64(time.Second))))}},
		}
	case errors.Is(err, access.Unknown):
		return who, unauthorized(err.Error())
	}
	return who, err
}

// open reports a path that needs no token.
func open(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/openapi.json"
}

func unauthorized(detail string) *Problem {
	return &Problem{Status: http.StatusUnauthorized, Detail: detail, header: http.Header{"Www-Authenticate": {"Bearer"}}}
}

// revoked reports that the token of a request ended while it was served.
func revoked(ctx context.Context) bool { return errors.Is(context.Cause(ctx), access.Ended) }
