# Averaged Newton steps until a budget is spent; part of decisions.pyx.

cdef tuple _named(answer):
    """Return an answer, whose value and noise are then read without a look at its class."""
    if not isinstance(answer, tuple) or len(answer) < 2:
        raise TypeError(f"expected an Answer; got {type(answer).__name__}")
    return <tuple> answer


cdef class AveragedNewton:
    """Newton steps of clipped scores, averaged by inverse variance, until the budget is spent.

    A step has the parts of scikit-learn's ``NewtonSolver``.  The Hessian starts as the identity,
    and follows the scores by BFGS updates where their change is above its noise, unless
    ``updates`` is False: the Jacobian of moments is not symmetric.  Scores are the answers of a
    problem; all that follows from them is computed here, in memory that belongs to one run.

    Parameters
    ----------
    problem : Problem
    start : ndarray of shape (p,)
    bound : float
        Clipping norm of the scores.
    stopping_rule : StoppingRule
    model : CurvatureModel or None
        How the curvature changes with the parameter; None if it does not.
    inference : bool
        Whether the covariance of the scores is requested, too.
    updates : bool
    """

    cdef object problem, model, theta
    cdef list scores, copies
    cdef tuple remaining
    cdef cnp.ndarray room
    cdef StoppingRule stopping_rule
    cdef double bound, n, min_score_variation, meat_noise
    cdef bint inference, updates, converged, weighs, has_meat
    cdef Py_ssize_t p, n_scores, n_averaged, n_before, done
    # The model: maps between whitened coefficients and those of rows, and whether it expects.
    cdef const double *whiten
    cdef const double *back
    cdef const double *intercept
    cdef const double *undetermined
    cdef double offset, offset_spread, largest_mean
    cdef int link
    cdef bint expects
    # Where scores were released, the scores, their noises, and the curvatures expected there.
    cdef double *points
    cdef double *values
    cdef double *noises
    cdef double *weights
    cdef Expected *expected_there
    # At the last point: the step, the curvature (the identity unless known), and the expected one.
    cdef double *here
    cdef double *step
    cdef double *curvature
    cdef bint knows
    cdef Expected start, expected, half
    # The covariance of the scores, the bound that it gives, and room for what is not kept.
    cdef double *meat
    cdef double *columns
    cdef double *shares
    cdef double *variances
    cdef double doubt, reference
    cdef double *other
    cdef double *memory  # 4 p*p + 4 p numbers, and two for each step

    def __init__(self, problem, start, double bound, stopping_rule, model, bint inference,
                 bint updates=True):
        self.problem, self.model, self.theta = problem, model, start
        self.inference, self.updates, self.bound = inference, updates, bound
        self.stopping_rule = _stopping_rule(stopping_rule)
        self.p, self.n, self.room = len(start), problem.n, None
        self.min_score_variation, self.expects = INFINITY, False
        self.copies, self.scores = [], []
        if model is not None:
            self._read(model)

    cdef int _read(self, model) except -1:
        """Read the model of the curvature."""
        cdef Py_ssize_t p = self.p
        loss = model.at.loss
        constant, self.offset, self.offset_spread = model.constant_and_offsets
        self.whiten = _of(model.whiten, p * p, self.copies)
        self.back = _of(model.back, p * p, self.copies)
        self.intercept = NULL if constant is None else _of(constant, p, self.copies)
        self.undetermined = NULL
        if model.undetermined is not None:
            self.undetermined = _of(model.undetermined, p, self.copies)
        self.min_score_variation = model.min_score_variation
        self.expects = loss.link != "identity"
        if self.expects:
            self.link, self.largest_mean = loss.code, loss.largest_mean
        return 0

    def solve(self, tuple mus not None, report, last_score=None, first_score=None):
        """Spend all of ``mus``; return a ``NewtonSolution``.

        The first step has been taken already where there is a ``last_score``.  Its score has been
        released already where there is a ``first_score``.  After each step ``report`` is called
        with the point, and the number of steps.
        """
        self.setup(mus, last_score)
        while self.remaining:
            mu, self.remaining = self.remaining[0], self.remaining[1:]
            self.update_gradient_hessian(mu, first_score)
            self.inner_solve()
            self.check_convergence(mu, self.line_search())
            self.done += 1
            report(self.theta, self.done if self.remaining else MAX_STEPS)
        return self.finalize()

    cdef int setup(self, tuple mus, last_score) except -1:
        """Divide the budget among the steps that are left: one, if the last step converged."""
        cdef double square, error
        if self.room is not None:
            raise RuntimeError("these steps were taken already; make another AveragedNewton")
        self._allocate(len(mus))
        memcpy(self.here, _of(self.theta, self.p, self.copies), self.p * sizeof(double))
        if self.expects:
            self._expect(self.here, &self.start, self.model.start)
            self._move_to(&self.start)
        self.n_before = self.done = last_score is not None
        if last_score is not None:
            square, error = squared_norm(last_score[1], last_score[2])
            self.converged = self._is_last(square, error, False, 0.0, 0.0, mus[0], mus[1:], False)
        if self.converged:
            self.remaining = (math.hypot(*mus[1:]),)
        else:
            self.remaining = mus[self.n_before:]
        return 0

    cdef int _allocate(self, Py_ssize_t steps) except -1:
        """Give this run its memory."""
        cdef Py_ssize_t p = self.p, i
        cdef Py_ssize_t vectors = p * (2 * steps + 7), matrices = p * p
        cdef Py_ssize_t sizes = steps * (4 + sizeof(Expected) // sizeof(double))
        self.room = _new_vector(vectors + 8 * matrices + 4 * p + sizes)
        self.expected_there = <Expected *> _data(self.room)
        self.noises = <double *> (self.expected_there + steps)
        self.weights = self.noises + steps
        self.points = self.weights + steps
        self.values = self.points + steps * p
        self.here = self.values + steps * p
        self.step = self.here + p
        self.shares = self.step + p
        self.variances = self.shares + p
        self.start.slopes = self.variances + p
        self.expected.slopes = self.start.slopes + p
        self.half.slopes = self.expected.slopes + p
        self.curvature = self.half.slopes + p
        self.meat = self.curvature + matrices
        self.columns = self.meat + matrices
        self.other = self.columns + matrices
        self.memory = self.other + matrices
        memset(self.curvature, 0, matrices * sizeof(double))
        for i in range(p):
            self.curvature[i * p + i] = 1.0
        return 0

    cdef int update_gradient_hessian(self, mu, first_score) except -1:
        """Release the score here, and update the Hessian by its change."""
        cdef bint counts = self.done > 0, shows
        cdef tuple gradient
        if first_score is not None and self.n_scores == 0:
            self._keep(first_score)
        else:
            # the meat is free up to half of the gradient's mu (claim C17)
            shows = self.p < MANY or len(self.remaining) < MEATS
            mu_meat = 0.5 * mu if self.inference and counts and shows else 0.0
            answer = self.problem.score(self.theta, self.bound, mu, mu_meat)
            gradient = _named(answer.gradient)
            self._keep(new_tuple(NoisyScore, (self.theta, gradient[0], gradient[1])))
            if mu_meat:
                self._pooled_mean(_named(answer.meat))
        self.n_averaged += counts
        if self.updates and self.done > self.n_before and self.bfgs_update():
            # earlier scores are from too far away
            self.n_averaged = self.n_averaged if self.converged else 1
        return 0

    cdef int _keep(self, score) except -1:
        """Keep a released score, and the curvature that is expected there."""
        cdef Py_ssize_t p = self.p, k = self.n_scores
        theta, value, self.noises[k] = score
        memcpy(self.points + k * p, _of(theta, p, self.copies), p * sizeof(double))
        memcpy(self.values + k * p, _of(value, p, self.copies), p * sizeof(double))
        self.expected_there[k] = self.expected
        self.scores.append(score)
        self.n_scores += 1
        return 0

    cdef int _pooled_mean(self, tuple answer) except -1:
        """Pool the mean of the scores' covariance with one more answer, weighted by precision."""
        cdef Py_ssize_t i, size = self.p * self.p
        cdef double noise = answer[1], before, now
        cdef const double *value = _of(answer[0], size, self.copies)
        if not self.has_meat:
            memcpy(self.meat, value, size * sizeof(double))
            self.meat_noise = noise
        else:
            before, now = pow(self.meat_noise, -2.0), pow(noise, -2.0)
            for i in range(size):
                self.meat[i] = (before * self.meat[i] + now * value[i]) / (before + now)
            self.meat_noise = pow(before + now, -0.5)
        self.has_meat = True
        return 0

    cdef int bfgs_update(self) except -1:
        """Update the Hessian by the last two scores; return 0 where it stays as it is.

        It is that of the midpoint of the two scores where the curvature changes.
        """
        cdef Py_ssize_t p = self.p, i, k = self.n_scores - 2
        cdef const double *point = self.points + k * p
        cdef const double *value = self.values + k * p
        cdef const double *noise = self.noises + k
        cdef double *there = self.memory  # transported to the midpoint
        cdef double *scratch = self.memory + p * p
        cdef int status = _bfgs_update(
            self._known(), point, point + p, value, value + p, noise[0], noise[1], p, scratch,
            self.other,
        )
        if status > 0 and self.expects:
            for i in range(p):
                self.step[i] = 0.5 * (point[i] + point[p + i])
            self._expect(self.step, &self.half)
            _transport(self.whiten, self.back, self._known(), &self.expected, &self.half, p,
                       scratch, there)
            status = _bfgs_update(there, point, point + p, value, value + p, noise[0], noise[1], p,
                                  scratch, self.other)
            if status > 0:
                memcpy(there, self.other, p * p * sizeof(double))
                _transport(self.whiten, self.back, there, &self.half, &self.expected, p, scratch,
                           self.other)
        _check_memory(status)
        if status:
            memcpy(self.curvature, self.other, p * p * sizeof(double))
            self.knows = True
        return status

    cdef int inner_solve(self) except -1:
        """Compute the step to the average of the last Newton points."""
        cdef Py_ssize_t p = self.p, i, first = self.n_scores - self.n_averaged
        cdef const double *columns = NULL
        self.weighs = self.n_averaged > 1
        if self.n_averaged == 0:
            first = 0
        if self.weighs:
            _inverse_variance_weights(
                self.points + first * p, self.noises + first,
                self.expected_there + first if self.expects else NULL, self.n_averaged,
                self._known(), p, self.memory, self.weights,
            )
        if self._information_bound(True):
            columns = self.columns
        _check_solved(_averaged_newton_point(
            self.points + first * p, self.values + first * p,
            self.weights if self.weighs else NULL, self.n_scores - first, self._known(), columns,
            self.shares, p, self.memory, self.step,
        ))
        for i in range(p):
            self.step[i] -= self.here[i]
        if self.expects:
            self._solve_halfway()
        return 0

    cdef int _solve_halfway(self) except -1:
        """Recompute the step with the curvature at its midpoint."""
        cdef Py_ssize_t p = self.p, i
        cdef double half = 0.5 * self._trusted()
        cdef double *midpoint = self.other
        for i in range(p):
            midpoint[i] = self.here[i] + half * self.step[i]
        self._expect(midpoint, &self.half)
        _transport(self.whiten, self.back, self._known(), &self.expected, &self.half, p,
                   self.memory, self.other)
        return _check_solved(_solve_after(self._known(), self.other, p, self.memory, self.step))

    cdef double line_search(self) except? -1.0:
        """Take the step as far as cutting planes and the trust region allow; return that part."""
        cdef Py_ssize_t p = self.p, i
        cdef cnp.ndarray point = _new_vector(p), step = _new_vector(p)
        cdef double factor = _cutting_plane(
            self.step, self.points, self.values, self.noises, self.n_scores, p
        )
        memcpy(_data(step), self.step, p * sizeof(double))
        factor = _smaller(self.problem.trusted_part(step), factor)
        if self.model is not None:
            factor = _smaller(self._trusted(), factor)
        for i in range(p):
            self.here[i] += factor * self.step[i]
        memcpy(_data(point), self.here, p * sizeof(double))
        self.theta = point
        if self.expects:
            self._expect(self.here, &self.half)
            self._transport_to(&self.half)
        return factor

    cdef int check_convergence(self, mu, double factor) except -1:
        """Spend the rest of the budget on one step if that is as good as several."""
        cdef double square, error, square_before = 0.0, error_before = 0.0
        cdef bint is_first = self.done <= self.n_before
        if factor < 1.0:  # the curvature is a different one there
            self.n_averaged, self.converged = 0, False
        elif self.remaining:
            square = self._squared_norm(self.n_scores - 1, &error)
            if not is_first:
                square_before = self._squared_norm(self.n_scores - 2, &error_before)
            self.converged = self._is_last(square, error, not is_first, square_before,
                                           error_before, mu, self.remaining, self.done > 0)
            if self.converged:
                self.remaining = (math.hypot(*self.remaining),)
        return 0

    cdef finalize(self):
        """Return the average with its noise, and the curvature that released numbers show."""
        cdef Py_ssize_t p = self.p, n_hidden = 0, i
        cdef cnp.ndarray least_meat, bounded
        average, curvature, min_meat, overstated = self._average(), None, None, None
        if self.expects:  # no released number shows a larger one
            self._hold_to_start()
        if self._information_bound(False):
            if self.min_score_variation > 0.0:
                overstated = self._overstated()
            bounded, least_meat = _new_matrix(p), _new_matrix(p)
            n_hidden = _apply_information_bound(
                self.curvature, self.columns, self.shares, self.variances, self.doubt,
                self.reference, p, self.memory, _data(bounded), _data(least_meat),
            )
            curvature, min_meat = bounded, least_meat
        elif self.knows:
            curvature = self._copied(self.curvature)
        meat = None
        if self.has_meat:
            meat = (self._copied(self.meat), self.meat_noise)
        return new_tuple(NewtonSolution, (
            self.theta, curvature, min_meat, n_hidden, _named(average)[2], meat,
            [self.noises[i] for i in range(1 - self.n_before, self.n_scores)], self.done,
            self._nonconvergence_direction(), overstated, self.scores, average,
        ))

    # ---- parts of the steps ----------------------------------------------------------------------

    cdef const double *_known(self) noexcept:
        """Return the curvature, NULL for the identity."""
        return self.curvature if self.knows else NULL

    cdef int _expect(self, const double *theta, Expected *found, known=None) except -1:
        """Compute the expected curvature, along slopes at most that across."""
        cdef Py_ssize_t p = self.p
        if known is None:
            apply(self.whiten, False, theta, p, self.memory)
            _design_curvature(self.memory, self.intercept, p, self.offset, self.offset_spread,
                              self.link, self.largest_mean, 0.0, found)
        else:
            slopes, found.variance, found.across, found.along = known
            memcpy(found.slopes, _of(slopes, p, self.copies), p * sizeof(double))
        if found.along > found.across or not found.across > MIN_CURVATURE:
            found.along = found.across
        return 0

    cdef void _move_to(self, const Expected *there) noexcept:
        """Expect this curvature from here on."""
        memcpy(self.expected.slopes, there.slopes, self.p * sizeof(double))
        self.expected.variance = there.variance
        self.expected.across, self.expected.along = there.across, there.along

    cdef void _transport_to(self, const Expected *there) noexcept:
        """Transport the curvature to where this one is expected."""
        _transport(self.whiten, self.back, self._known(), &self.expected, there, self.p,
                   self.memory, self.other)
        memcpy(self.curvature, self.other, self.p * self.p * sizeof(double))
        self.knows = True
        self._move_to(there)

    cdef void _hold_to_start(self) noexcept:
        """Let the expected curvature be at most that of the start."""
        cdef double across = _smaller(self.expected.across, self.start.across)
        cdef double along = _smaller(self.expected.along, self.start.along)
        if across != self.expected.across or along != self.expected.along:
            memcpy(self.half.slopes, self.expected.slopes, self.p * sizeof(double))
            self.half.variance = self.expected.variance
            self.half.across, self.half.along = across, along
            self._transport_to(&self.half)

    cdef double _trusted(self) noexcept:
        """Return the part of the step within the trust region: of its length in rows."""
        cdef double length
        apply(self.whiten, False, self.step, self.p, self.memory)
        length = sqrt(_dot(self.memory, self.memory, self.p))
        return _trust_region(length, self.expected.variance if self.expects else 0.0)

    cdef double _squared_norm(self, Py_ssize_t k, double *error) noexcept:
        """Return the squared norm of a score without its noise's part, which is the error."""
        cdef const double *value = self.values + k * self.p
        error[0] = self.p * self.noises[k] * self.noises[k]
        return _larger(_dot(value, value, self.p) - error[0], 0.0)

    cdef bint _is_last(self, double square, double error, bint has_before, double square_before,
                       double error_before, double mu, tuple later, bint averages) except? -1:
        """Apply the stopping rule with these budgets."""
        cdef double rest = 0.0, each
        for each in later:
            rest = hypot(rest, each)
        return _has_converged(self.stopping_rule, square, error, has_before, square_before,
                              error_before, mu, rest, averages, self.p, self.n)

    cdef bint _information_bound(self, bint of_step) except? -1:
        """Bound the Hessian by the variance of the scores, where the two should be equal."""
        if not self.has_meat or not self.min_score_variation < INFINITY:
            return False
        _check_memory(_information_bound(
            self.curvature, self.meat, self.meat_noise, self.min_score_variation,
            self.undetermined, of_step, self.p, self.memory, self.columns, self.shares,
            self.variances, &self.doubt, &self.reference,
        ))
        return True

    cdef _overstated(self):
        """Return the direction where the bound applies most; None if scores vary enough there."""
        cdef Py_ssize_t p = self.p, i, least = 0
        cdef cnp.ndarray direction
        for i in range(p):
            if self.shares[i] != self.shares[i]:
                return None
            least = i if self.shares[i] < self.shares[least] else least
        if not self.shares[least] < MIN_VARIATION:
            return None
        direction = _new_vector(p)
        for i in range(p):
            _data(direction)[i] = self.columns[i * p + least]
        return direction

    cdef _average(self):
        """Average the scores that count, and the points where they were released."""
        cdef Py_ssize_t first = self.n_scores - self.n_averaged, k
        if not (self.n_averaged > 1 and self.weighs):
            return self.scores[self.n_scores - 1]
        noises = [self.weights[k] * self.noises[first + k] for k in range(self.n_averaged)]
        return new_tuple(NoisyScore, (
            self._weighted_mean(self.points + first * self.p),
            self._weighted_mean(self.values + first * self.p), math.hypot(*noises),
        ))

    cdef cnp.ndarray _weighted_mean(self, const double *each):
        """Average vectors by the weights of the scores that count."""
        cdef Py_ssize_t p = self.p, i, k
        cdef cnp.ndarray out = _new_vector(p)
        cdef double *mean = _data(out)
        cdef double total = 0.0
        memset(mean, 0, p * sizeof(double))
        for k in range(self.n_averaged):
            for i in range(p):
                mean[i] += self.weights[k] * each[k * p + i]
            total += self.weights[k]
        for i in range(p):
            mean[i] /= total
        return out

    cdef _nonconvergence_direction(self):
        """Test whether later scores still point one way on average; return the direction if so.

        The test is of chi-squared form, with the noise's exact variance.  A model of the curvature
        has its own limits.
        """
        cdef Py_ssize_t p = self.p, size = self.n_averaged if self.n_averaged > 1 else 1
        cdef Py_ssize_t first = self.n_scores - size
        cdef cnp.ndarray mean
        cdef double variance, statistic
        if self.model is not None or size < 3:
            return None
        mean = _new_vector(p)
        variance = _moved_mean(self.values + first * p, self.noises + first, size, p, self.memory,
                               _data(mean))
        statistic = _dot(_data(mean), _data(mean), p) / variance
        return mean if chi_squared_tail(p, statistic) < FALSE_ALARM else None

    cdef cnp.ndarray _copied(self, const double *matrix):
        cdef cnp.ndarray out = _new_matrix(self.p)
        memcpy(_data(out), matrix, self.p * self.p * sizeof(double))
        return out
