package ratelimit

// Windows is how many windows are kept.
func (l *Limiter) Windows() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.windows)
}
