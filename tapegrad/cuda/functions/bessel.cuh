// The Bessel functions of orders 0 and 1, in double. Read by CUDA kernels and by csrc/cpu/special.cpp:
// Note [Functions written once].
//
// Close to zero a polynomial in x^2, with the logarithm split off where there is one; then
// polynomials in x; from 8 on the oscillation, or the exponential, times a polynomial in 8 / x. All
// polynomials were fitted at Chebyshev points in 260 bits. Beside the zeros of J and Y the error is
// small against sqrt(2 / (pi x)), not against the result.

// (J0(x) - 1) / x^2 in x^2 from 0 to 4
TAPEGRAD_TABLE kJ0Inner[] = {
    -0x1.c37256be92fc4p-3, 0x1.c9b5380897349p-6, -0x1.9e1cb9570e57bp-10, 0x1.a3f0e3597ef32p-15,
    -0x1.0fa6e9796f95fp-20, 0x1.e6f7108f142ccp-27, -0x1.401f1d712b39fp-33, 0x1.41dbd5ef41ff8p-40,
    -0x1.fedaaceddf4a3p-48,
};
// J1(x) / x in x^2 from 0 to 4
TAPEGRAD_TABLE kJ1Inner[] = {
    0x1.8a3bafbd8015bp-2, -0x1.afd36c73264f2p-4, 0x1.2cbde5ad31cbbp-7, -0x1.9b73ac0db2ddbp-12,
    0x1.4ecf3a2e0f759p-17, -0x1.6978ef2ccd16ep-23, 0x1.15e8031ee781ap-29, -0x1.3fd73d5b9504bp-36,
    0x1.1deaae5c50be1p-43, -0x1.987e973e4bcddp-51,
};
// Y0(x) - 2 / pi log(x) J0(x) in x^2 from 0 to 4
TAPEGRAD_TABLE kY0Inner[] = {
    0x1.c52a45a4d5f55p-3, 0x1.e9616cd862f24p-3, -0x1.ac0510ac8df29p-5, 0x1.e9557d809c7f8p-9,
    -0x1.1d5a4dc811f2cp-13, 0x1.96b4c3f092765p-19, -0x1.881022d4b44e8p-25, 0x1.110dceb039e19p-31,
    -0x1.1fe4f017957b7p-38, 0x1.dba81d7aed2aap-46,
};
// (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x in x^2 from 0 to 4
TAPEGRAD_TABLE kY1Inner[] = {
    -0x1.93f61feec61p-4, 0x1.632c5e3f1511bp-4, -0x1.4e0be4a5e58e5p-7, 0x1.0ca4d1fbc157ep-11,
    -0x1.e6c3e85aca8c8p-17, 0x1.1c5c0278e6cb7p-22, -0x1.d11b6e79f2785p-29, 0x1.1977a96504aa7p-35,
    -0x1.067a265ae017dp-42, 0x1.84daa789111cbp-50,
};
// from 2 to 5
TAPEGRAD_TABLE kJ0Low[] = {
    -0x1.854034ce30d51p-2, -0x1.a6061566b7eebp-3, 0x1.e31fbdb2f85b7p-2, 0x1.d37b26588c7dp-9,
    -0x1.2b36a2ef2e161p-4, 0x1.f148a75bb9938p-10, 0x1.332486b477135p-8, -0x1.3254b2b95a2fcp-13,
    -0x1.5c86ec4f6486bp-13, 0x1.56cc895045744p-18, 0x1.f740f50c90277p-19, -0x1.d1e44acf1bb96p-24,
    -0x1.f77ac5bf1446cp-25, 0x1.b0ae332b607a1p-30, 0x1.7189dfc58f4d7p-31, -0x1.1c88bc3cb9c68p-36,
    -0x1.92cb32bb0c20fp-38,
};
// from 2 to 5
TAPEGRAD_TABLE kJ1Low[] = {
    0x1.19596399cff47p-3, -0x1.42152921fae7bp-1, -0x1.d37b26588b901p-8, 0x1.8ef383e992dp-3,
    -0x1.9e673621dae9bp-8, -0x1.332486b47add2p-6, 0x1.6562d088d9cedp-11, 0x1.d0b3e5c26fec1p-11,
    -0x1.0119689381251p-15, -0x1.a360cdac56f42p-16, 0x1.ab122fe786687p-21, 0x1.f77b84c25c26dp-22,
    -0x1.d50798168523ap-27, -0x1.af57f3f64be85p-28, 0x1.7002966235237p-33, 0x1.14ece266a9816p-34,
    -0x1.a54a02f930708p-40, -0x1.0cad67e982c21p-41,
};
// from 2 to 5
TAPEGRAD_TABLE kY0Low[] = {
    0x1.831defdaee2c8p-3, -0x1.3b0653101314bp-1, -0x1.4af88423529b1p-4, 0x1.c99a76a31d91bp-3,
    -0x1.d99c73c79c372p-8, -0x1.336aef9822cdbp-6, 0x1.00b851cf56a42p-14, 0x1.2d1a0a5ce521ep-10,
    -0x1.cdc7095b3ff72p-14, 0x1.5ed191cb912afp-18, -0x1.843dbc4ae7906p-17, 0x1.681e3896012b6p-18,
    -0x1.059e0371dfc3ep-19, 0x1.9ad871a359aa8p-21, -0x1.4b5b09f63b638p-22, 0x1.0a971b2e8e064p-23,
    -0x1.b2c4da491fa1ep-25, 0x1.6127b8e065f3bp-26, -0x1.046c885281cb4p-27, 0x1.9e0a0fab46fa9p-29,
    -0x1.0a3e2d1edea92p-29, 0x1.cc56c5a4ba72ep-31, 0x1.5fddcfd386926p-34, -0x1.b1e6c3962a73cp-35,
    -0x1.16faf4e0980bp-33, 0x1.e2ca1ff55fd41p-35,
};
// from 2 to 5
TAPEGRAD_TABLE kY1Low[] = {
    0x1.a4086ec01970fp-2, 0x1.b94b5ad9c37afp-4, -0x1.c99a76a31d92fp-2, 0x1.3bbda28510288p-6,
    0x1.002e72541e1f8p-4, -0x1.00b851b975aaep-12, -0x1.5f490c18afefap-8, 0x1.33da05962339ep-11,
    -0x1.071d235ef0f8ap-15, 0x1.4388f3db0eb0fp-14, -0x1.4a1bfbb1b8eb2p-15, 0x1.059a6402c9ad8p-16,
    -0x1.bd0acf2d73143p-18, 0x1.82f7b7416b5bbp-19, -0x1.4dbc1f7ac45p-20, 0x1.1e50ea357c0e7p-21,
    -0x1.ebf3f86777063p-23, 0x1.b23d940506f7cp-24, -0x1.77cedd8ff052ap-25, 0x1.08384122420dcp-26,
    -0x1.b182ba739d4c2p-28, 0x1.873da7069e948p-28, -0x1.67f084fe9cabfp-29, -0x1.3c7ee08f1c8c2p-31,
    0x1.52cfd593705d4p-32, 0x1.dd78e6b07ee81p-32, -0x1.ae478cd9970adp-33,
};
// from 5 to 8
TAPEGRAD_TABLE kJ0High[] = {
    0x1.0a563d835b27bp-2, 0x1.d899b8ebf57ap-3, -0x1.46e4f741637bp-2, -0x1.eaf4cabb2b0c4p-5,
    0x1.ed84bfcfcac07p-5, 0x1.001e88b2f2535p-8, -0x1.1562e3852817p-8, -0x1.ea67ce5170d9fp-14,
    0x1.4a2900c9674f5p-13, 0x1.f98de3fb630cbp-20, -0x1.ea383eb2db3e5p-19, -0x1.08af786a8a6ep-26,
    0x1.f3242ab2666dfp-25, 0x1.2a5b506acc5ddp-40, -0x1.72adef4e3148p-31, 0x1.ac49a1f8497efp-40,
    0x1.974a85789ababp-38,
};
// from 5 to 8
TAPEGRAD_TABLE kJ1High[] = {
    -0x1.3b1125f2a3a6bp-3, 0x1.b3dbf4572f4ebp-2, 0x1.eaf4cabb2b09dp-4, -0x1.49032a8a8733p-3,
    -0x1.aadd8e7f92163p-7, 0x1.1562e3852bf17p-6, 0x1.1e11e303db413p-11, -0x1.b836abba81f7p-11,
    -0x1.7b2a69eea35fap-17, 0x1.988435bd62e7dp-16, 0x1.e5407a35a5861p-24, -0x1.f324ed00c1ffbp-22,
    -0x1.1199f5aec4175p-37, 0x1.b0ada3f25b574p-28, -0x1.1c09974976fb2p-36, -0x1.18117dd387587p-34,
    0x1.172bded1ab738p-42, 0x1.114f45b95b7f4p-41,
};
// from 5 to 8
TAPEGRAD_TABLE kY0High[] = {
    -0x1.62ccee020d2f2p-3, 0x1.a501130aa4f69p-2, 0x1.2dfee9d38b3a1p-3, -0x1.4b8298bc0b142p-3,
    -0x1.1d71ac22c7bbcp-6, 0x1.2055943ecd18dp-6, 0x1.7b8bb584d352p-11, -0x1.c8707e4b3af1bp-11,
    -0x1.14472b0e06802p-16, 0x1.a9863c7136ccep-16, 0x1.65b459248204ep-23, -0x1.ff1bca7372cdep-22,
    -0x1.072568dc0b425p-29, 0x1.cdb92e6201be8p-28, -0x1.f46f19882becfp-35, -0x1.e3d8389cafdf3p-35,
    -0x1.818e3fd2abf8ep-39, 0x1.441703dd16fc9p-40,
};
// from 5 to 8
TAPEGRAD_TABLE kY1High[] = {
    -0x1.18ab620718a46p-2, -0x1.92a937c4b9a23p-3, 0x1.4b8298bc0b13ep-2, 0x1.7c97902e5f2e8p-5,
    -0x1.e08ea1be003a3p-5, -0x1.7b8bb5846147ep-9, 0x1.0a419f011fc04p-8, 0x1.705ee3b0f3cap-14,
    -0x1.3f24ad4438386p-13, -0x1.2a15f20a63b93p-20, 0x1.d4841743cf5a5p-19, 0x1.06f87c23ad46ap-26,
    -0x1.f42d60f79edafp-25, 0x1.2a663b894bdep-31, 0x1.2cd8bc071b6cbp-31, 0x1.83b153207202fp-36,
    -0x1.92afd4571fa97p-37, 0x1.f986b28c77ce6p-40, -0x1.a8f6c746edb2p-42,
};
// P of J = sqrt(2 / (pi x)) (P cos(phase) - Q / x sin(phase)), in (8 / x)^2 from 0 to 1
TAPEGRAD_TABLE kP0[] = {
    0x1.ffb8dd328503dp-1, -0x1.193600c1de9d9p-11, 0x1.9be00160d9865p-18, -0x1.b8d2d71b30a5ep-23,
    0x1.b7ef13a07a483p-27, -0x1.4d2ea54bfc4e9p-30, 0x1.54dc6d1e48781p-33, -0x1.b63f441e64847p-36,
    0x1.50dad9b31dc98p-38, -0x1.1de864a95f83ap-40, 0x1.143405810de71p-42, -0x1.cdb3179595bbdp-44,
    0x1.2cca86c6338d9p-45,
};
// and Q
TAPEGRAD_TABLE kQ0[] = {
    -0x1.fdb5c0b2f3d5cp-4, 0x1.1e9a6138feec1p-11, -0x1.8c843528063aap-17, 0x1.3135a899a7d66p-21,
    -0x1.858d1fd8f9301p-25, 0x1.61a576ba7257dp-28, -0x1.a07cd08accc3cp-31, 0x1.2b957936e62f7p-33,
    -0x1.fb5d5dbfbf76bp-36, 0x1.e9303de9288dfp-38, -0x1.d86bdfa9cff32p-40, 0x1.033dea6365dep-41,
    -0x1.33cdb710c05d6p-42, 0x1.cab223df72976p-44,
};
// the same of order 1
TAPEGRAD_TABLE kP1[] = {
    0x1.003b716033732p0, 0x1.d73b8ea3c10dap-11, -0x1.0b1541bfbbd42p-17, 0x1.07762654afea9p-22,
    -0x1.f96172d037183p-27, 0x1.75ea62e7b87dp-30, -0x1.78b760be6538cp-33, 0x1.df1d5756e9b34p-36,
    -0x1.6d4b96ca1b17cp-38, 0x1.3459d80b23acap-40, -0x1.2883a97c0530ap-42, 0x1.ebf5d803cd896p-44,
    -0x1.3f5b1671b84fbp-45,
};
// and Q
TAPEGRAD_TABLE kQ1[] = {
    0x1.7f323705062fbp-2, -0x1.938da0a0a6a1fp-11, 0x1.e8e009ca48cc5p-17, -0x1.64231273efe05p-21,
    0x1.b9302eecdd8b1p-25, -0x1.8922fa1341065p-28, 0x1.c927792add62bp-31, -0x1.45d1fafbde408p-33,
    0x1.11f1ec5ba5e4bp-35, -0x1.06a7aef91348p-37, 0x1.f9ccefc5a2172p-40, -0x1.14bb49dd9cee7p-41,
    0x1.46123a8bbc898p-42, -0x1.e48d4f144b8b2p-44,
};
// I0: coefficients of the series in (x / 2)^2, 1 / k!^2
TAPEGRAD_TABLE kI0Inner[] = {
    0x1p0, 0x1p0, 0x1p-2, 0x1.c71c71c71c71cp-6, 0x1.c71c71c71c71cp-10, 0x1.23456789abcdfp-14,
    0x1.02e85c0898b71p-19, 0x1.522a43f65486ap-25, 0x1.522a43f65486ap-31, 0x1.0b313289be0b9p-37,
    0x1.5601885e63e5dp-44, 0x1.69ca9cf3b7f54p-51, 0x1.4197a7f5154bcp-58, 0x1.e725594ee52e9p-66,
    0x1.3e22d70ef3b5fp-73, 0x1.69f7da8510bcdp-81, 0x1.69f7da8510bcdp-89,
};
// I1(x) / x, likewise
TAPEGRAD_TABLE kI1Inner[] = {
    0x1p-1, 0x1p-2, 0x1.5555555555555p-5, 0x1.c71c71c71c71cp-9, 0x1.6c16c16c16c17p-13,
    0x1.845c8a0ce5129p-18, 0x1.27e4fb7789f5cp-23, 0x1.522a43f65486ap-29, 0x1.2c9758daf5cdp-35,
    0x1.ab81ea75fcdf4p-42, 0x1.f17697cf1cf13p-49, 0x1.e2637bef9ff1ap-56, 0x1.8bce58901a35ep-63,
    0x1.165e7c2d153f3p-70, 0x1.53585cdcbfb1p-78, 0x1.69f7da8510bcdp-86, 0x1.54ad09e6a6575p-94,
};
// sqrt(x) exp(-x) I0(x) from 4 to 8
TAPEGRAD_TABLE kI0Middle[] = {
    0x1.a205e9173e37bp-2, -0x1.ccf29b7eff008p-9, 0x1.657c868ce6022p-10, -0x1.1c2e6ed6f7fa1p-11,
    0x1.ca24ef5a5a21ap-13, -0x1.6d706c4bd7292p-14, 0x1.1771a1517e137p-15, -0x1.8c9073aa3df71p-17,
    0x1.f87e845b96b14p-19, -0x1.11752d4576d04p-20, 0x1.bd44fc8e249c8p-23, -0x1.cbc3a81cb020dp-27,
    -0x1.ff53d3c6601ccp-27, 0x1.6d40b97871ee3p-27, -0x1.5245c4e49406fp-28, 0x1.060f271271dedp-29,
    -0x1.74754eda8d2d2p-31, 0x1.e2bcf1a352492p-33, -0x1.f4fa3240b7034p-35, 0x1.25838074989e7p-36,
    -0x1.47a4d93a7470ep-37, 0x1.85e69a8090955p-39,
};
// sqrt(x) exp(-x) I1(x) from 4 to 8
TAPEGRAD_TABLE kI1Middle[] = {
    0x1.7d63230f24b41p-2, 0x1.36a0c70af27fp-7, -0x1.c2f57d5c258bdp-9, 0x1.4d0ad86abe15ep-10,
    -0x1.f33670a585d09p-12, 0x1.7758ca6cce887p-13, -0x1.15bda30dca728p-14, 0x1.8bc6bb080280fp-16,
    -0x1.0a14b78c66988p-17, 0x1.4ba81d2c918adp-19, -0x1.7874960ac2b7dp-21, 0x1.7ba9f57844b52p-23,
    -0x1.43d229522263dp-25, 0x1.9232623c71a8fp-28, -0x1.e830ad555863ap-34, -0x1.c2da45abcd168p-32,
    0x1.e33d9f192008bp-33, -0x1.3d432f383c63fp-34, 0x1.a74fd08ed841ep-36, -0x1.bb3eed16d073ap-37,
    0x1.fcea32a94c753p-39,
};
// the first in 8 / x from 0 to 1
TAPEGRAD_TABLE kI0Outer[] = {
    0x1.9bd428ad249a5p-2, 0x1.b87969bb93b86p-9, 0x1.1daa72b5e2bd7p-13, 0x1.75e5ee7193c9bp-17,
    0x1.8e513a708989ep-20, 0x1.3f49a7d62b2a7p-22, 0x1.7d0f1670e44e2p-24, 0x1.51ce71adfb8dcp-25,
    0x1.7232c4c122295p-26, 0x1.0393c5c549066p-27, -0x1.cfb20ddb53edep-28, -0x1.ccba1604bc157p-27,
    -0x1.7369bf37c026dp-28, 0x1.03813921d363bp-27, 0x1.fe9e1dd494c83p-28, -0x1.e1db3b1fc3ea4p-29,
    -0x1.99204d1a8bb3p-28, 0x1.a1d63d6d8235fp-30, 0x1.f3ff264907758p-29, -0x1.3a3b59d669595p-31,
    -0x1.bd05a336c6a58p-30, 0x1.4ffe43b34b0cap-33, 0x1.f741903e631b4p-32, -0x1.646da6611912bp-36,
    -0x1.0adb754ca8b1dp-34,
};
// and the second
TAPEGRAD_TABLE kI1Outer[] = {
    0x1.8ebe783a8403p-2, -0x1.3f796198ee63ap-7, -0x1.cbc54df1e92ep-13, -0x1.f89c2304b860ep-17,
    -0x1.ec8e106de0a2fp-20, -0x1.761384ba8ebf9p-22, -0x1.ad8d53e613985p-24, -0x1.7277b8802ae6ap-25,
    -0x1.918f9f9793789p-26, -0x1.21de6538102d1p-27, 0x1.cec9f53b94527p-28, 0x1.e3a948c415f47p-27,
    0x1.9a8f6afc3dd3dp-28, -0x1.0b4539bc94915p-27, -0x1.0f0aac74a7f0dp-27, 0x1.ff8b852ecf6d8p-29,
    0x1.acff7707fcc47p-28, -0x1.0183064563575p-29, -0x1.04c48e6f24f3p-28, 0x1.07047fc5cbf74p-30,
    0x1.cf243016f9c3p-30, -0x1.c15e6112d1135p-32, -0x1.059e6bcc892fep-31, 0x1.fef895f7b3a4bp-34,
    0x1.1556db352e8eap-34, -0x1.12e7f21d2bffbp-36,
};
// K0(x) + log(x) I0(x) in x^2 from 0 to 1
TAPEGRAD_TABLE kK0Inner[] = {
    0x1.0c2047108e956p-2, 0x1.3830d94ea686dp-3, 0x1.b2d72c6a79dedp-8, 0x1.cb6b8d18ee4c4p-14,
    0x1.0120e8a956b1ep-20, 0x1.6546fbabbe4b3p-28, 0x1.527ba0abfe1d2p-36, 0x1.d18d9ed13d0b1p-45,
    0x1.e61b7806ec4fep-54,
};
// (K1(x) - 1 / x - log(x) I1(x)) / x in x^2 from 0 to 1
TAPEGRAD_TABLE kK1Inner[] = {
    -0x1.684507a99024ap-2, -0x1.710ab17f0d2b8p-5, -0x1.3b728099ba46fp-10, -0x1.e53d2237dc1ebp-17,
    -0x1.ac12dc43dea1ep-24, -0x1.eb4b13e98efafp-32, -0x1.8ca57959dc4dp-40, -0x1.db68a108d714bp-49,
};
// sqrt(x) exp(x) K0(x) from 1 to 3
TAPEGRAD_TABLE kK0Near[] = {
    0x1.30ae2423de262p0, 0x1.ac450893fa571p-6, -0x1.6a2e7f6783fffp-7, 0x1.37ba2b7a1c6ecp-8,
    -0x1.103e447537f6bp-9, 0x1.e15d77a22966fp-11, -0x1.adfb5c7bf7349p-12, 0x1.837d19b3fe22dp-13,
    -0x1.5fdc874dcbap-14, 0x1.41a153c180fcap-15, -0x1.27b430626b682p-16, 0x1.113dea739bc9fp-17,
    -0x1.fb46a876f1e8ap-19, 0x1.d95b708e9c903p-20, -0x1.bb1819acac5ddp-21, 0x1.9a16fd7abfc47p-22,
    -0x1.7fc1ea2154528p-23, 0x1.950583ac78e52p-24, -0x1.8bc902e9572f8p-25, 0x1.365b433760a01p-27,
    -0x1.93e8cd2efbb1fp-29, 0x1.b1e58f4026e59p-27, -0x1.d58c53323148cp-28, -0x1.ada4d7535eb72p-29,
    0x1.e8a9611ac8009p-30, 0x1.5f55f095d3aabp-30, -0x1.690c02f90b7f2p-31,
};
// from 3 to 8
TAPEGRAD_TABLE kK0Middle[] = {
    0x1.3a30add9cd2eap0, 0x1.63c0fbbe39f14p-7, -0x1.2a85642a76d8bp-8, 0x1.f749474edba4ap-10,
    -0x1.a9fffd58a791fp-11, 0x1.69ec060220235p-12, -0x1.3484904bf0629p-13, 0x1.07cca06d9c405p-14,
    -0x1.c462e4ee612a9p-16, 0x1.84e33635c2a8cp-17, -0x1.4f1695d968669p-18, 0x1.2162ef4b1d90ap-19,
    -0x1.f4d181b24679ep-21, 0x1.b169f23892ffap-22, -0x1.78120a3c8f26bp-23, 0x1.4d6868377974p-24,
    -0x1.243efc7e32486p-25, 0x1.b37fb604a9e4p-27, -0x1.6d0a9d7d4a34bp-28, 0x1.31abb11f2905fp-28,
    -0x1.1ffce8709c97ap-29, -0x1.cb232efeb1ed6p-32, 0x1.07964833ba52ep-32, 0x1.a251b0e718813p-32,
    -0x1.847804b1f9106p-33,
};
// in 8 / x from 0 to 1
TAPEGRAD_TABLE kK0Far[] = {
    0x1.3e6cb6eb84735p0, -0x1.2c3f8f930de94p-7, 0x1.2da34174a763dp-12, -0x1.0ac56933f6f27p-16,
    0x1.4ad9b4de52adap-20, -0x1.0391c7ec60643p-23, 0x1.e64d4c40af32fp-27, -0x1.062010966acbfp-29,
    0x1.3d299a4de5891p-32, -0x1.a6c7bc1bce7cbp-35, 0x1.2e5702cfae06bp-37, -0x1.d3d64745fa7efp-40,
    0x1.db82af887f813p-42, -0x1.aff6f40020063p-44,
};
// sqrt(x) exp(x) K1(x) from 1 to 3
TAPEGRAD_TABLE kK1Near[] = {
    0x1.7628990a85c65p0, -0x1.80fb15bf9d158p-4, 0x1.60839fa05723p-5, -0x1.466bbff736b1ep-6,
    0x1.30f8c24a90a3dp-7, -0x1.1f00ab6e5e9dfp-8, 0x1.0fb49ad01ac03p-9, -0x1.0280f11c10ca6p-10,
    0x1.edf37dbc93553p-12, -0x1.d99cad8afc56dp-13, 0x1.c782af9ee293ap-14, -0x1.b748692f22976p-15,
    0x1.a8a06af31f29fp-16, -0x1.9b29388e6ca0bp-17, 0x1.8ee8add74fa27p-18, -0x1.859326631ce68p-19,
    0x1.7c1195e25c443p-20, -0x1.61de7e0f1b16dp-21, 0x1.538e627df8aap-22, -0x1.b6ece15791799p-23,
    0x1.c9563e2c6dbbcp-24, 0x1.51fd0ed4906b1p-28, -0x1.0d801e58f3035p-27, -0x1.624315330dd4dp-25,
    0x1.8e5dd56c1e83ep-26, 0x1.9e65e983901dfp-27, -0x1.d822dbbc653fp-28, -0x1.07a355432d9cdp-28,
    0x1.15e5b61d47845p-29,
};
// from 3 to 8
TAPEGRAD_TABLE kK1Middle[] = {
    0x1.55a42344c9fb4p0, -0x1.2095093f77364p-5, 0x1.f65ae7e79d496p-7, -0x1.b68c43f5a1977p-8,
    0x1.7fdafb441d9d7p-9, -0x1.50c5726c9de93p-10, 0x1.2814b8b919656p-11, -0x1.04cbba51362bcp-12,
    0x1.cc358008f106bp-14, -0x1.96ac14e9b3806p-15, 0x1.67dd0b61b59cap-16, -0x1.3ed7270540033p-17,
    0x1.1ad2d0ef99da8p-18, -0x1.f67a191b756d6p-20, 0x1.beb8948880bd1p-21, -0x1.8b7569f01dd02p-22,
    0x1.5f6f3c3d906dbp-23, -0x1.47d14553d809ep-24, 0x1.281f40cd7cc4cp-25, -0x1.79b8e41fbeed5p-27,
    0x1.352ff19a6321ep-28, -0x1.92536cf6b4354p-28, 0x1.893e309e57295p-29, 0x1.f38760111272fp-31,
    -0x1.0e40e870e2b43p-31, -0x1.18015714908c9p-31, 0x1.092e92af9ebf4p-32,
};
// in 8 / x from 0 to 1
TAPEGRAD_TABLE kK1Far[] = {
    0x1.483a94b0ee353p0, 0x1.cfdb8076bf305p-6, -0x1.02b2e98ba637ep-11, 0x1.801dee859bc81p-16,
    -0x1.b539454099f4ep-20, 0x1.45e63596fd34dp-23, -0x1.27098058c4529p-26, 0x1.36612965a9244p-29,
    -0x1.70b27cc06768cp-32, 0x1.e475e929fdabcp-35, -0x1.569b8615d278dp-37, 0x1.0699107086a7bp-39,
    -0x1.080aaec279da4p-41, 0x1.dc75547a9e207p-44,
};
// the spherical j1(x) / x: its series in x^2
TAPEGRAD_TABLE kSphericalInner[] = {
    0x1.5555555555555p-2, -0x1.1111111111111p-5, 0x1.3813813813814p-10, -0x1.71de3a556c734p-16,
    0x1.0cfeb60f94b0ep-22, -0x1.08db48ebe51c7p-29, 0x1.78af56a4d411bp-37, -0x1.952c77030ad4ap-45,
    0x1.5532eaf516982p-53,
};
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kInverseRootPi = 0x1.20dd750429b6dp-1;

// The oscillation beyond 8: p cos(phase) - q / x sin(phase) for the first kind, p sin(phase) + q / x
// cos(phase) for the second, where the phase is x - pi / 4 - order pi / 2.
struct Oscillation {
  double first, second;
};
TAPEGRAD_HELPER Oscillation oscillation(double x, double p, double q, bool order_one) {
  const double sine = sin(x), cosine = cos(x), size = kInverseRootPi / sqrt(x), r = q / x;
  const double sum = sine + cosine, difference = sine - cosine;
  if (order_one)
    return {size * (p * difference + r * sum), size * (r * difference - p * sum)};
  return {size * (p * sum - r * difference), size * (p * difference + r * sum)};
}
TAPEGRAD_HELPER double reciprocal_square(double x) {
  const double w = 8 / x;
  return 2 * w * w - 1;
}
TAPEGRAD_HELPER Oscillation oscillation_0(double x) {
  const double u = reciprocal_square(x);
  return oscillation(x, horner(kP0, u), horner(kQ0, u), false);
}
TAPEGRAD_HELPER Oscillation oscillation_1(double x) {
  const double u = reciprocal_square(x);
  return oscillation(x, horner(kP1, u), horner(kQ1, u), true);
}
// Maps 2 to 5, and 5 to 8, to the interval from -1 to 1.
TAPEGRAD_HELPER double low_piece(double x) { return (x - 3.5) * (1.0 / 1.5); }
TAPEGRAD_HELPER double high_piece(double x) { return (x - 6.5) * (1.0 / 1.5); }

TAPEGRAD_FUNCTION double bessel_j0(double x) {
  const double a = fabs(x), z = a * a;
  if (a <= 2) return 1 + z * horner(kJ0Inner, 0.5 * z - 1);
  if (a <= 5) return horner(kJ0Low, low_piece(a));
  if (a <= 8) return horner(kJ0High, high_piece(a));
  return oscillation_0(a).first;
}

TAPEGRAD_FUNCTION double bessel_j1(double x) {
  const double a = fabs(x);
  if (a <= 2) return x * horner(kJ1Inner, 0.5 * a * a - 1);
  const double y = a <= 5 ? horner(kJ1Low, low_piece(a))
                 : a <= 8 ? horner(kJ1High, high_piece(a)) : oscillation_1(a).first;
  return x < 0 ? -y : y;
}

TAPEGRAD_FUNCTION double bessel_y0(double x) {
  if (!(x > 0)) return x == 0 ? -infinity() : not_a_number();
  if (x <= 2) return kTwoOverPi * log(x) * bessel_j0(x) + horner(kY0Inner, 0.5 * x * x - 1);
  if (x <= 5) return horner(kY0Low, low_piece(x));
  if (x <= 8) return horner(kY0High, high_piece(x));
  return oscillation_0(x).second;
}

TAPEGRAD_FUNCTION double bessel_y1(double x) {
  if (!(x > 0)) return x == 0 ? -infinity() : not_a_number();
  if (x <= 2)
    return kTwoOverPi * log(x) * bessel_j1(x) + x * horner(kY1Inner, 0.5 * x * x - 1) -
           kTwoOverPi / x;
  if (x <= 5) return horner(kY1Low, low_piece(x));
  if (x <= 8) return horner(kY1High, high_piece(x));
  return oscillation_1(x).second;
}

// sqrt(x) exp(-x) I(x) for x >= 4
TAPEGRAD_HELPER double i0_outer(double x) {
  return x <= 8 ? horner(kI0Middle, 0.5 * x - 3) : horner(kI0Outer, 16 / x - 1);
}
TAPEGRAD_HELPER double i1_outer(double x) {
  return x <= 8 ? horner(kI1Middle, 0.5 * x - 3) : horner(kI1Outer, 16 / x - 1);
}
// exp(x) y, where the exponential may overflow before the product does
TAPEGRAD_HELPER double grow(double x, double y) {
  if (x <= 700) return exp(x) * y;
  const double half = exp(0.5 * x);
  return half * y * half;
}

TAPEGRAD_FUNCTION double i0(double x) {
  const double a = fabs(x);
  if (a <= 4) return horner(kI0Inner, 0.25 * a * a);
  return a == infinity() ? a : grow(a, i0_outer(a) / sqrt(a));
}

TAPEGRAD_FUNCTION double i1(double x) {
  const double a = fabs(x);
  if (a <= 4) return x * horner(kI1Inner, 0.25 * a * a);
  const double y = a == infinity() ? a : grow(a, i1_outer(a) / sqrt(a));
  return x < 0 ? -y : y;
}

TAPEGRAD_FUNCTION double i0e(double x) {
  const double a = fabs(x);
  return a <= 4 ? exp(-a) * horner(kI0Inner, 0.25 * a * a) : i0_outer(a) / sqrt(a);
}

TAPEGRAD_FUNCTION double i1e(double x) {
  const double a = fabs(x);
  if (a <= 4) return exp(-a) * (x * horner(kI1Inner, 0.25 * a * a));
  const double y = i1_outer(a) / sqrt(a);
  return x < 0 ? -y : y;
}

// K of order 0 or 1 for 0 < x <= 1
TAPEGRAD_HELPER double k0_inner(double x) {
  return horner(kK0Inner, 2 * x * x - 1) - log(x) * horner(kI0Inner, 0.25 * x * x);
}
TAPEGRAD_HELPER double k1_inner(double x) {
  return 1 / x + x * (log(x) * horner(kI1Inner, 0.25 * x * x) + horner(kK1Inner, 2 * x * x - 1));
}
// sqrt(x) exp(x) K(x) for x >= 1
TAPEGRAD_HELPER double k0_outer(double x) {
  if (x <= 3) return horner(kK0Near, x - 2);
  if (x <= 8) return horner(kK0Middle, (x - 5.5) * 0.4);
  return horner(kK0Far, 16 / x - 1);
}
TAPEGRAD_HELPER double k1_outer(double x) {
  if (x <= 3) return horner(kK1Near, x - 2);
  if (x <= 8) return horner(kK1Middle, (x - 5.5) * 0.4);
  return horner(kK1Far, 16 / x - 1);
}

TAPEGRAD_FUNCTION double modified_bessel_k0(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 1 ? k0_inner(x) : exp(-x) * (k0_outer(x) / sqrt(x));
}

TAPEGRAD_FUNCTION double modified_bessel_k1(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 1 ? k1_inner(x) : exp(-x) * (k1_outer(x) / sqrt(x));
}

TAPEGRAD_FUNCTION double scaled_modified_bessel_k0(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 1 ? exp(x) * k0_inner(x) : k0_outer(x) / sqrt(x);
}

TAPEGRAD_FUNCTION double scaled_modified_bessel_k1(double x) {
  if (!(x > 0)) return x == 0 ? infinity() : not_a_number();
  return x <= 1 ? exp(x) * k1_inner(x) : k1_outer(x) / sqrt(x);
}

TAPEGRAD_FUNCTION double spherical_bessel_j0(double x) {
  if (x == 0) return 1;
  return fabs(x) == infinity() ? 0 : sin(x) / x;
}

TAPEGRAD_FUNCTION double spherical_bessel_j1(double x) {
  if (fabs(x) < 0.75) return x * horner(kSphericalInner, x * x);
  return fabs(x) == infinity() ? 0 : (sin(x) / x - cos(x)) / x;
}
