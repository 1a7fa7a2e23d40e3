/* The table of built-in losses.  The codes, every switch of the kernels, the checks of their
 * arguments and Python's `LOSSES` are made from these rows.
 *
 * ROW(NAME, name, code, falling, rising, traits, scale_part)
 *
 *   NAME, name  LOSS_NAME is the code; the functions are name_rho and, see dispatch.h, name_fraction
 *               with name_slope, or name_psi_and_slope
 *   code        the number by which everybody else knows the loss; never given to another one
 *   falling,    the largest -psi and the largest psi, of the constants c and h: the slopes of the
 *   rising      asymptotes to the left and to the right
 *   traits      what the rest of the kernels has to know, below
 *   scale_part  name_chi_and_reach where the residual scale can be estimated with the coefficients
 *               (traits FREE_SCALE), or no_scale_part
 */

enum {
    LABELS = 1,      /* responses are 0 and 1, and r is the margin (2y - 1) t, without a scale */
    C_IS_ONE = 2,    /* has no constant c */
    USES_H = 4,      /* has a second constant h; the others' is 1 */
    FREE_SCALE = 8,  /* with bounded or Mallows weights */
    NO_ASYMPTOTE = 16, /* rho may be subtracted from rho: name_rho leaves its complement alone */
    NO_CURVATURE = 32, /* psi' can be negative: there is no Hessian */
    NOT_NEGATIVE = 128, /* a response below zero is zero */
    OF_PREDICTOR = 64, /* not a function of y - t: no scale, and an offset is added to t, not taken from y */
};

/* psi is a fraction whose division is shared with the weights, in loops of their own.  Measured
 * without them: each pays 3% or more at some size, Newton with p = 2 takes 5% more CPU time, changes
 * of gradients 11 to 17%. */
#define FUSED_LOSSES(ROW)                                                                       \
    FUSED_PREDICTOR_LOSSES(ROW)                                                                    \
    ROW(HUBER, huber, 0, c, c, FREE_SCALE, huber_chi_and_reach)                                    \
    ROW(LOG_COSH, log_cosh, 1, c, c, FREE_SCALE, log_cosh_chi_and_reach)                           \
    ROW(PSEUDO_HUBER, pseudo_huber, 2, c, c, FREE_SCALE, pseudo_huber_chi_and_reach)

#define FUSED_PREDICTOR_LOSSES(ROW)                                                             \
    ROW(LOGISTIC, logistic, 3, 1.0, 1.0, LABELS | C_IS_ONE | OF_PREDICTOR, no_scale_part)

/* psi of a whole block is stored first, and weighted afterwards. */
#define STORED_LOSSES(ROW)                                                                      \
    ROW(SMOOTHED_HUBER, smoothed_huber, 4, c + 0.5 * h, c + 0.5 * h, USES_H, no_scale_part)                  \
    ROW(OSTROVSKII_BACH, ostrovskii_bach, 5, c, c, 0, no_scale_part)                               \
    ROW(SMOOTH_ABSOLUTE, smooth_absolute, 6, 1.0, 1.0, C_IS_ONE, no_scale_part)                      \
    ROW(QUANTILE, quantile, 8, 1.0 - h, h, USES_H, no_scale_part)                               \
    ROW(NARROW_QUANTILE, narrow_quantile, 15, 1.0 - h, h, USES_H, no_scale_part)                \
    ROW(CLIPPED_RESPONSE, clipped_response, 18, c, c, 0, no_scale_part)                         \
    ROW(TUKEY, tukey, 10, c, c, NO_ASYMPTOTE | NO_CURVATURE, no_scale_part)                        \
    ROW(GEMAN_MCCLURE, geman_mcclure, 11, c, c, NO_ASYMPTOTE | NO_CURVATURE, no_scale_part)        \
    ROW(WELSCH, welsch, 12, c, c, NO_ASYMPTOTE | NO_CURVATURE, no_scale_part)                      \
    ROW(CAUCHY, cauchy, 13, c, c, NO_ASYMPTOTE | NO_CURVATURE, no_scale_part)

/* Functions of predictor and response, which no residual sums up. */
#define PREDICTOR_LOSSES(ROW)                                                                   \
    ROW(POISSON, poisson, 14, h < c ? h : c, c, USES_H | OF_PREDICTOR | NO_ASYMPTOTE | NOT_NEGATIVE,   \
        no_scale_part)                                                                             \
    ROW(GAMMA, gamma, 16, 1.0, c, OF_PREDICTOR | NO_ASYMPTOTE | NOT_NEGATIVE, no_scale_part)       \
    ROW(PROBIT, probit, 17, c + 1.0, c + 1.0, LABELS | OF_PREDICTOR | NO_ASYMPTOTE, no_scale_part)

#define BUILT_IN_LOSSES(ROW) FUSED_LOSSES(ROW) STORED_LOSSES(ROW) PREDICTOR_LOSSES(ROW)

/* Not in the table: psi, psi' and rho come from functions of the caller, clipped to declared bounds. */
enum { LOSS_USER = 7 };

#define CODE(NAME, name, code, falling, rising, traits, scale_part) LOSS_##NAME = code,
enum { BUILT_IN_LOSSES(CODE) };
#undef CODE
