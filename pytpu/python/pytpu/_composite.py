"""Operators that PyTorch composes of others above autograd: `CompositeImplicitAutograd`. Modes get their parts."""

#: Names of overloads; those named `default` without it.
COMPOSITE = frozenset(
    """
    _lu_with_info _upsample_bicubic2d_aa.vec _upsample_bilinear2d_aa.vec _upsample_lanczos2d_aa.vec
    _upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec absolute absolute_
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adjoint alpha_dropout
    alpha_dropout_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_
    arctanh arctanh_ argsort argsort.stable argwhere atleast_1d atleast_2d atleast_3d avg_pool1d batch_norm bilinear
    broadcast_tensors broadcast_to cdist chain_matmul chunk clip clip.Tensor clip_ clip_.Tensor column_stack concat
    concatenate conj conj_physical contiguous conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding
    conv_transpose1d conv_transpose2d.input conv_transpose3d.input corrcoef cosine_embedding_loss cosine_similarity
    cov cross cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor cumulative_trapezoid.dx cumulative_trapezoid.x det
    diag diagflat diff divide.Scalar divide.Scalar_mode divide.Tensor divide.Tensor_mode divide_.Scalar
    divide_.Scalar_mode divide_.Tensor divide_.Tensor_mode dropout dropout_ dsplit.array dsplit.int dstack einsum
    embedding_bag embedding_bag.padding_idx expand_as fake_quantize_per_channel_affine
    fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine.tensor_qparams feature_alpha_dropout
    feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fft fft_fft2 fft_fftn fft_fftshift fft_hfft
    fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft
    fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fix fix_ flatten.using_ints fliplr flipud
    float_power.Tensor_Scalar float_power.Tensor_Tensor frobenius_norm.dim ger gradient.array gradient.scalararray
    gradient.scalarint gradient.scalarrayarray gradient.scalarrayint gradient.tensorarray gradient.tensorarrayint
    greater.Scalar greater.Tensor greater_.Scalar greater_.Tensor greater_equal.Scalar greater_equal.Tensor
    greater_equal_.Scalar greater_equal_.Tensor grid_sampler group_norm gru.data gru.input gru_cell
    hinge_embedding_loss hsplit.array hsplit.int hstack imag inner instance_norm inverse isclose isfinite isreal
    istft item kl_div kron l1_loss layer_norm less.Scalar less.Tensor less_.Scalar less_.Tensor less_equal.Scalar
    less_equal.Tensor less_equal_.Scalar less_equal_.Tensor linalg_cholesky linalg_cond linalg_cond.p_str linalg_det
    linalg_diagonal linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_ldl_factor linalg_lu_factor
    linalg_matmul linalg_matrix_norm linalg_matrix_norm.str_ord linalg_matrix_power linalg_matrix_rank
    linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.tol_tensor
    linalg_multi_dot linalg_norm linalg_norm.ord_str linalg_pinv linalg_pinv.atol_rtol_float
    linalg_pinv.rcond_tensor linalg_slogdet linalg_solve linalg_solve_ex linalg_svd linalg_svdvals linalg_tensorinv
    linalg_tensorsolve linalg_vander linalg_vecdot linear log_sigmoid log_softmax.int logdet lstm.data lstm.input
    lstm_cell lu_solve margin_ranking_loss matmul matrix_exp matrix_power max.other max_pool1d
    max_pool1d_with_indices max_pool2d max_pool3d meshgrid min.other moveaxis.int moveaxis.intlist movedim.int
    movedim.intlist msort multilabel_margin_loss multiply.Scalar multiply.Tensor multiply_.Scalar multiply_.Tensor
    nanmean nanquantile nanquantile.scalar narrow narrow.Tensor native_channel_shuffle negative negative_ nll_loss
    nll_loss2d nll_loss_nd nonzero_numpy not_equal.Scalar not_equal.Tensor not_equal_.Scalar not_equal_.Tensor
    nuclear_norm nuclear_norm.dim one_hot orgqr outer pad pairwise_distance pdist pinverse poisson_nll_loss positive
    prelu quantile quantile.scalar ravel real relu6 relu6_ repeat_interleave.self_Tensor repeat_interleave.self_int
    requires_grad_ reshape reshape_as resolve_conj resolve_neg rms_norm rnn_relu.data rnn_relu.input rnn_relu_cell
    rnn_tanh.data rnn_tanh.input rnn_tanh_cell rrelu rrelu_ scaled_dot_product_attention selu selu_ slogdet
    softmax.int special_digamma special_erf special_erfc special_erfinv special_exp2 special_expit special_expm1
    special_gammainc special_gammaincc special_gammaln special_i0 special_log1p special_log_softmax special_logit
    special_logsumexp special_multigammaln special_ndtr special_polygamma special_psi special_round special_sinc
    special_softmax special_xlogy special_xlogy.other_scalar special_xlogy.self_scalar split.sizes square square_
    std std.dim std_mean std_mean.dim stft subtract.Scalar subtract.Tensor subtract_.Scalar subtract_.Tensor svd
    swapaxes swapdims take_along_dim tensor_split.indices tensor_split.sections
    tensor_split.tensor_indices_or_sections tensordot tile trapezoid.dx trapezoid.x trapz.dx trapz.x
    triplet_margin_loss true_divide.Scalar true_divide.Tensor true_divide_.Scalar true_divide_.Tensor type_as
    unflatten.int unsafe_chunk upsample_bicubic2d.vec upsample_bilinear2d.vec upsample_linear1d.vec
    upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec upsample_trilinear3d.vec vander var var.dim
    var_mean var_mean.dim view_as vsplit.array vsplit.int vstack where
    """.split()
)
