package scripted

import (
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// condition is a checked When.
type condition struct {
	When
	matches *regexp.Regexp // nil: every text
}

func compileWhen(w When, path string) (condition, error) {
	c := condition{When: w}
	if w == (When{}) {
		return c, newFault(path, "add at least one condition; for a reply to everything use a step with repeat: true")
	}
	roles := []perdure.Role{perdure.RoleUser, perdure.RoleAgent, perdure.RoleToolResult, perdure.RoleNotification}
	if w.LastRole != "" && !slices.Contains(roles, w.LastRole) {
		return c, newFault(path+".last_role", "%.40q is not a role; allowed: %s", w.LastRole, list(roles))
	}
	numbers := []struct {
		key     string
		n       *int
		minimum int
	}{{"step", w.Step, 0}, {"turn_step", w.TurnStep, 0}, {"attempt", w.Attempt, 1}, {"notifications", w.Notifications, 1}}
	for _, number := range numbers {
		if number.n != nil && *number.n < number.minimum {
			return c, newFault(path+"."+number.key, "%d is too small: it counts from %d", *number.n, number.minimum)
		}
	}
	if w.LastMatches == "" {
		return c, nil
	}
	var err error
	if c.matches, err = regexp.Compile(w.LastMatches); err != nil {
		return c, newFault(path+".last_matches", "not an RE2 expression: %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return c, nil
}

// holds reports whether all conditions hold.
func (c condition) holds(t transcript) bool {
	last := textOf(t.last())
	switch {
	case c.LastRole != "" && t.last().Role != c.LastRole,
		!strings.Contains(last, c.LastContains),
		c.matches != nil && !c.matches.MatchString(last),
		c.UserContains != "" && !strings.Contains(t.latest(perdure.RoleUser), c.UserContains),
		c.Step != nil && t.count(perdure.RoleAgent) != *c.Step,
		c.TurnStep != nil && t.turnStep() != *c.TurnStep,
		c.Attempt != nil && t.attempt != *c.Attempt,
		c.Notifications != nil && t.count(perdure.RoleNotification) < *c.Notifications,
		c.Called != "" && !t.called(c.Called),
		c.NotCalled != "" && t.called(c.NotCalled):
		return false
	}
	return true
}

// list joins the allowed words.
func list[T ~string](words []T) string {
	var all []string
	for _, w := range words {
		all = append(all, string(w))
	}
	return strings.Join(all, ", ")
}
