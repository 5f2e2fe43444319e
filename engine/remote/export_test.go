package remote

// MaxAnswer sets the maximum number of bytes of a response.
func (e *Engine) MaxAnswer(n int64) { e.maxBytes = n }
